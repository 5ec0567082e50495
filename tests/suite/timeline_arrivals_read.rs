//! Declared and recorded arrivals as they are read: what is taken, what is sorted or noted, what is refused.

use proptest::prelude::*;
use routelab::source::Diagnostics;
use routelab::workload::NO_NAME;

use crate::given::routes;
use crate::timeline_arrivals::{TENANTS, draft, key, trace};

#[test]
fn a_trace_can_be_faster_and_go_on_for_ever() {
    let data = b"at_s,tenant\n10,acme\n11.5,cygnus\n11.5,acme\n14,\n";
    let (arrivals, notes) = trace("speed = 2\nrepeat = true", data);
    let arrivals = arrivals.unwrap();
    assert!(
        notes.contains("1 row has the same time as the one before, of 4"),
        "{notes}"
    );
    assert!(arrivals.has_tenants());
    let found: Vec<(u64, u16)> = arrivals
        .open(key(0))
        .take(6)
        .map(|one| (one.at.0, one.tenant))
        .collect();
    let gap = 2_000_000 / 3;
    assert_eq!(
        found,
        [
            (5_000_000, 0),
            (5_750_000, 2),
            (5_750_000, 0),
            (7_000_000, NO_NAME),
            (7_000_000 + gap + 5_000_000, 0),
            (7_000_000 + gap + 5_750_000, 2),
        ]
    );
    assert_eq!(arrivals.mean_rate_per_s(), Some(1.5));
    assert_eq!(arrivals.variation(), None);
}

#[test]
fn rows_out_of_order_are_sorted_with_a_note_that_points_at_the_first() {
    let (arrivals, notes) = trace("", b"id,at_s\na,5\nb,3\nc,4\nd,1\n");
    let times: Vec<u64> = arrivals.unwrap().open(key(0)).map(|one| one.at.0).collect();
    assert_eq!(times, [1_000_000, 3_000_000, 4_000_000, 5_000_000]);
    assert!(
        notes.contains("2 rows are earlier than the row above; the trace is sorted by time"),
        "{notes}"
    );
    assert!(notes.contains("t.data:3:1"), "{notes}");
    // Azure's dates count from the earliest row, wherever it stands.
    let azure = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04,1,1\n2023-11-16 18:17:03.5,1,1\n";
    let (arrivals, _) = trace("", azure);
    let times: Vec<u64> = arrivals.unwrap().open(key(0)).map(|one| one.at.0).collect();
    assert_eq!(times, [0, 500_000]);
}

#[test]
fn recorded_files_say_what_is_wrong_and_where() {
    let cases: [(&str, &[u8], &[&str]); 18] = [
        ("", b"", &["the file is empty"]),
        ("", b"at_s\n", &["the trace has no rows"]),
        ("", b"when,who\n1,2\n", &["no known trace has the columns `when`, `who`", "TIMESTAMP"]),
        ("", b"at_s\n1\n-2\nx\n\n9e9\n", &["t.data:3:1", "but is -2", "t.data:4:1", "must be a number, but is `x`", "t.data:6:1", "times count from the start of the run"]),
        ("", b"at_s\nnan\ninf\n", &["but is NaN", "but is inf"]),
        ("", b"a,at_s\nx,\n", &["t.data:2:3", "`at_s` is empty"]),
        ("", b"a,at_s\nx,1,2\nx\n", &["the row has 3 cells, not 2", "the row has 1 cell, not 2"]),
        ("", b"at_s,tenant\n1,acne\n", &["unknown tenant `acne`", "did you mean `acme`?", "t.data:2:3"]),
        ("", b"TIMESTAMP,ContextTokens\n2023-11-31 00:00:00,1\n", &["t.data:2:1", "must be a date and time, but is `2023-11-31 00:00:00`"]),
        ("", b"{\"timestamp\": 0}\n{\"timestamp\": \"x\"}\n{\"at_s\": 1}\n{", &["t.data:2:", "invalid type: string", "t.data:3:1", "the row has no `timestamp`", "t.data:4:1"]),
        ("", b"{\"timestamp\": -1}\n", &["`timestamp` must be between 0 and 315576000000, but is -1"]),
        ("", b"client,window_start_s,rate_rps,cv,pattern\n0,0,-1,0,Pareto\n", &["`rate_rps` must be between 0", "`cv` must be between", "`pattern` must be `Gamma` or `Weibull`, but is `Pareto`"]),
        ("", b"client,window_start_s,rate_rps,cv,pattern\n0,0,1,1,Gamma\n0,600,1,1,Gamma\n1,1300,1,1,Gamma\n", &["windows are as long as the smallest distance of their starts, 600 s, but the one at 1300 s"]),
        ("", b"client,window_start_s,rate_rps,cv,pattern\nx,600,1,1,Gamma\nx,600,1,1,Gamma\n", &["client `x` has two rows for the window that starts at 600 s"]),
        ("", b"client,window_start_s,rate_rps,cv,pattern\n0,0,1,1,Gamma\n0,0.5,1,1,Gamma\n", &["two windows start less than a second apart"]),
        ("", b"client,window_start_s,rate_rps,cv,pattern\n0,0,1e-9,1,Gamma\n", &["`rate_rps` must be 0 or at least 0.000001", "t.data:2:5"]),
        ("repeat = true", b"at_s\n7\n", &["it has no length after which it could be repeated"]),
        ("", b"at_s\n\xff\n", &["line 2 is not UTF-8 text"]),
    ];
    for (keys, data, expected) in cases {
        let (arrivals, found) = trace(keys, data);
        assert!(arrivals.is_none(), "{}", String::from_utf8_lossy(data));
        for words in expected {
            assert!(found.contains(words), "`{words}` is not in:\n{found}");
        }
    }
    let many = "at_s\n".to_owned() + &"x\n".repeat(1_000);
    let (_, found) = trace("", many.as_bytes());
    assert!(found.contains("20 errors"), "{found}");
    let (_, found) = trace("", &[0x1f, 0x8b, 8, 0, 1]);
    assert!(found.contains("not a sound gzip file"), "{found}");
}

#[test]
fn a_declaration_says_what_is_wrong_and_where() {
    let tenant = "[timeline.arrivals.tenant";
    let cases: Vec<(String, &[&str])> = vec![
        ("".into(), &["missing key `rate_per_s`"]),
        ("rate_per_s = 0".into(), &["`timeline.arrivals.rate_per_s` must be above 0, but is 0"]),
        ("rate_per_s = -3".into(), &["must be above 0, but is -3"]),
        ("rate_per_s = nan".into(), &["must be a finite number"]),
        ("rate_per_s = 1e7".into(), &["must be between 0.000001 and 1000000, but is 10000000"]),
        ("rate_per_s = 1\nproces = \"even\"".into(), &["unknown key `proces`", "did you mean `process`?"]),
        ("rate_per_s = 1\nprocess = \"poison\"".into(), &["unknown process `poison`", "did you mean `poisson`?"]),
        ("rate_per_s = 1\nprocess = 3".into(), &["must be \"poisson\", \"even\", { gamma"]),
        ("rate_per_s = 1\nprocess = {}".into(), &["needs `gamma` or `weibull`"]),
        ("rate_per_s = 1\nprocess.gama.cv = 2".into(), &["unknown key `gama`", "did you mean `gamma`?"]),
        ("rate_per_s = 1\nprocess = { gamma = { cv = 2 }, weibull = { cv = 2 } }".into(), &["either `gamma` or `weibull`, not both"]),
        ("rate_per_s = 1\nprocess.gamma.cv = 0".into(), &["gaps that do not vary are written process = \"even\""]),
        ("rate_per_s = 1\nprocess.gamma.cv = 51".into(), &["must be between 0.05 and 50, but is 51"]),
        ("rate_per_s = 1\nprocess.weibull = {}".into(), &["missing key `cv`"]),
        ("rate_per_s = 1\ndaily = { peak_to_trough = 0.9, peak_at_h = 25 }".into(), &["must be between 1 and 1000, but is 0.9", "must be between 0 and 24, but is 25"]),
        ("rate_per_s = 1\nspeed = 2".into(), &["`timeline.arrivals.speed` goes with `trace` only"]),
        ("rate_per_s = 1\ntrace = \"a.csv\"".into(), &["`timeline.arrivals.rate_per_s` does not go with `trace`"]),
        ("trace = 3\nspeed = 0\nrepeat = 1".into(), &["`timeline.arrivals.trace` must be a string", "must be between 0.001 and 1000, but is 0", "must be true or false"]),
        ("rate_per_s = 1\nburst = [{ at_s = -1, for_s = 0, factor = -1 }]".into(), &["`timeline.arrivals.burst[0].at_s` must be between", "for_s` must be above 0, but is 0", "factor` must be between 0 and 10000, but is -1"]),
        ("rate_per_s = 1\nburst = [{ at_s = 1, for_s = 1e-9, factor = 1 }]".into(), &["shorter than a microsecond"]),
        ("rate_per_s = 1\nburst = [{ at_s = 1, for_s = 2, factor = 2, tenant = \"acme\" }]".into(), &["arrivals are not declared by tenant"]),
        ("rate_per_s = 1e5\nburst = [{ at_s = 1, for_s = 2, factor = 10 }, { at_s = 2, for_s = 2, factor = 2 }]".into(), &["bursts that overlap make the rate 2000000 per second"]),
        (format!("{tenant}.acme]\nrate_per_s = 1"), &["no arrivals are declared for `borealis`, `cygnus`", "every tenant of the workload needs one"]),
        (format!("rate_per_s = 3\n{tenant}.acme]\nrate_per_s = 1"), &["is declared for each tenant or for all, not both"]),
        (format!("{tenant}.acne]\nrate_per_s = 0"), &["unknown tenant `acne`", "did you mean `acme`?", "must be above 0"]),
        (format!("{tenant}]"), &["no arrivals are declared for"]),
    ];
    for (text, expected) in cases {
        let mut found = Diagnostics::default();
        let whole = format!("[timeline.arrivals]\n{text}\n");
        let draft = draft(&whole, &TENANTS, &routes(), &mut found);
        assert!(draft.is_none(), "{text}");
        let found = found.render(false);
        for words in expected {
            assert!(found.contains(words), "`{words}` is not in:\n{found}");
        }
    }
    let mut found = Diagnostics::default();
    let nobody = "[timeline.arrivals.tenant.acme]\nrate_per_s = 1\n";
    assert!(draft(nobody, &[], &routes(), &mut found).is_none());
    assert!(found.render(false).contains("the workload has no tenants"));
    let mut found = Diagnostics::default();
    assert!(draft("[timeline.arrivals.tenant]\n", &[], &routes(), &mut found).is_none());
    assert!(found.render(false).contains("names no tenant"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_file_makes_the_reader_panic(
        start in prop::sample::select(vec![
            "", "{", "at_s\n", "at_s,tenant\n", "TIMESTAMP,x\n", "{\"timestamp\": 3}\n",
            "client,window_start_s,rate_rps,cv,pattern\n",
        ]),
        rest in prop::collection::vec(
            prop::sample::select(vec![
                ",", "\n", "\r\n", "\"", "0", "1", "1.5", "-3", "1e300", "600", "acme", "Gamma",
                "Weibull", "2023-11-16 18:17:03.97", "{\"timestamp\":", "{\"at_s\":", "}", "ä", "\0",
            ]),
            0..40,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..4),
        repeat: bool,
    ) {
        let mut data = start.as_bytes().to_vec();
        data.extend(rest.concat().as_bytes());
        data.extend(tail);
        let (arrivals, _) = trace(&format!("repeat = {repeat}"), &data);
        if let Some(arrivals) = arrivals {
            let taken: Vec<_> = arrivals.open(key(0)).take(50).collect();
            prop_assert!(taken.is_sorted_by_key(|arrival| arrival.at));
        }
    }
}
