//! Recorded worlds: real data against published numbers, every format, and every kind of bad file.

use std::io::Write as _;
use std::path::Path;

use proptest::prelude::*;
use routelab::source::{Diagnostics, SourceFile};
use routelab::units::Score;
use routelab::workload::{BATCH, Batch, Domain, DrawKey, NO_NAME, Workload, bare, parse};

use crate::given::{reference, shared};

pub(crate) const KEY: DrawKey = DrawKey {
    seed: 2026,
    domain: Domain::Traffic,
    replicate: 0,
};

/// Reads a data file with usual column names.
pub(crate) fn load(path: &str, data: &[u8]) -> Result<Workload, String> {
    load_with(path, data, None)
}

pub(crate) fn load_with(
    path: &str,
    data: &[u8],
    columns: Option<&str>,
) -> Result<Workload, String> {
    let columns = columns.map(|text| SourceFile::new("columns.toml", text));
    let mut diagnostics = Diagnostics::default();
    let built = bare(path, columns.as_ref(), &mut diagnostics)
        .and_then(|spec| spec.build(Some(data), &mut diagnostics));
    assert_eq!(built.is_none(), diagnostics.has_errors());
    built.ok_or_else(|| diagnostics.render(false))
}

pub(crate) fn sound(path: &str, data: &str) -> Workload {
    load(path, data.as_bytes()).unwrap_or_else(|shown| panic!("{shown}"))
}

/// Reads a workload file of the repository with its data, if that is there.
fn committed(path: &str) -> Option<Workload> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(path)).unwrap();
    let mut diagnostics = Diagnostics::default();
    let spec = parse(&SourceFile::new(path, text), "w", &mut diagnostics)
        .unwrap_or_else(|| panic!("{}", diagnostics.render(false)));
    let data = &spec.data_path().unwrap().value;
    let bytes = match data.split_once("/shared/") {
        Some((_, inside)) => shared(inside)?,
        None => std::fs::read(root.join(path).parent().unwrap().join(data)).unwrap(),
    };
    let built = spec.build(Some(&bytes), &mut diagnostics);
    Some(built.unwrap_or_else(|| panic!("{}", diagnostics.render(false))))
}

/// Calls `take` with each judged request.
fn each(world: &Workload, mut take: impl FnMut(&Batch, usize)) {
    let mut batch = Batch::default();
    let mut first = 0;
    while first < world.len() {
        world.fill(KEY, first, BATCH, &mut batch);
        for i in 0..batch.len {
            take(&batch, i);
        }
        first += batch.len as u64;
    }
    world.fill(KEY, first, BATCH, &mut batch);
    assert_eq!(batch.len, 0, "a batch beyond the last row is empty");
}

/// Mean grade of each route over the requests that have one.
fn means(world: &Workload) -> Vec<f64> {
    let mut sums = vec![(0_u64, 0_u64); world.routes.len()];
    each(world, |batch, i| {
        for (route, (sum, n)) in sums.iter_mut().enumerate() {
            if let Some(millionths) = batch.grade[route][i].millionths() {
                *sum += u64::from(millionths);
                *n += 1;
            }
        }
    });
    sums.iter()
        .map(|(sum, n)| *sum as f64 / *n as f64 / 1e6)
        .collect()
}

/// Everything about the world's requests, as text, so that worlds can be compared.
fn dump(world: &Workload) -> String {
    let mut batch = Batch::default();
    world.fill(KEY, 0, 100_000, &mut batch);
    let ids: Vec<String> = (0..world.len()).map(|i| world.request_id(i)).collect();
    format!(
        "{:?} {:?} {:?} {ids:?} {batch:?}",
        world.tasks, world.tenants, world.routes
    )
}

#[test]
fn the_lessons_rows_have_the_lessons_marginals() {
    let world = committed("workloads/lesson-recorded.toml").unwrap();
    assert_eq!(world.len(), 6_000);
    assert_eq!(world.routes, ["small", "medium", "large"]);
    assert_eq!((world.folds(), world.is_recorded()), (2, true));
    assert!(world.has_tokens() && world.has_verifier_draws() && world.has_difficulty_hint());
    assert!(world.has_prompt_length() && world.has_binary_grades() && !world.has_cost());
    assert_eq!(world.notes(), ["6000 rows read"]);
    assert_eq!(world.find_request("5999"), Some(5_999));
    assert_eq!(world.find_request("6000"), None);
    // Counts of right answers as the lesson prints them; the cascade's are the fourth.
    let (mut right, mut small_served, mut cascade) = ([0_u64; 3], 0, 0);
    each(&world, |batch, i| {
        let input = batch.input_tokens[i].get().unwrap();
        let fits = [16_000, 64_000, 200_000]
            .map(|window| input + batch.output(0, i).get().unwrap() <= window);
        let good = [0, 1, 2].map(|route: usize| batch.grade[route][i] == Score::RIGHT);
        for route in 0..3 {
            right[route] += u64::from(good[route]);
        }
        small_served += u64::from(good[0] && fits[0]);
        let accepts = |route: usize| {
            let accept_if = if good[route] { 0.93 } else { 0.30 };
            let threshold = (accept_if * 4_294_967_296.0_f64).round() as u64;
            u64::from(batch.verifier_lane[route][i]) < threshold
        };
        let served = (0..3).find(|route| fits[*route] && (*route == 2 || accepts(*route)));
        cascade += u64::from(good[served.unwrap()]);
    });
    let Some(expected) = reference("data/seed_workload/expected.json") else {
        return;
    };
    let count = |name: &str| {
        (expected["policies"][name]["accuracy"].as_f64().unwrap() * 6_000.0).round() as u64
    };
    assert_eq!(small_served, count("always small"));
    assert_eq!(right[1], count("always medium"));
    assert_eq!(right[2], count("always large"));
    assert_eq!(cascade, count("cascade (small>medium>large)"));
}

#[test]
fn single_routes_of_real_benchmarks_have_their_published_accuracy() {
    let Some(references) = reference("data/routing/reference_numbers.json") else {
        return;
    };
    let references = references["references"].as_array().unwrap();
    let check = |world: &Workload, ids: &dyn Fn(&str) -> String| {
        let mut checked = 0;
        for (route, mean) in world.routes.iter().zip(means(world)) {
            let id = ids(route);
            if let Some(found) = references.iter().find(|one| one["id"] == id.as_str()) {
                let (value, tol) = (
                    found["value"].as_f64().unwrap(),
                    found["tol"].as_f64().unwrap(),
                );
                assert!(
                    (mean - value).abs() <= tol.max(1e-12),
                    "{id}: {mean} against {value}"
                );
                checked += 1;
            }
        }
        checked
    };
    let rows = |id: &str| references.iter().find(|one| one["id"] == id).unwrap()["value"].as_u64();
    for (name, n) in [("mmlu", 14_037), ("gsm8k", 1_307)] {
        let world = committed(&format!("tests/configs/routing/{name}.toml")).unwrap();
        assert_eq!(
            (world.len(), Some(n)),
            (n, rows(&format!("routellm.{name}.decon.n")))
        );
        assert_eq!(
            check(&world, &|route| format!(
                "routellm.{name}.decon.{route}_acc"
            )),
            2
        );
        assert!(
            world.notes()[1].ends_with("rows left out: only rows with contaminated = 0 are kept")
        );
        assert!(world.has_prompt_length() && !world.has_tokens());
    }
    let test = committed("tests/configs/routing/ulab.toml").unwrap();
    assert_eq!((test.len(), test.folds(), test.routes.len()), (500, 1, 9));
    assert_eq!(check(&test, &|route| format!("ulab.test.{route}.mean")), 5);
    assert!(!test.has_binary_grades());
    let train = committed("tests/configs/routing/ulab-train.toml").unwrap();
    assert_eq!(train.len(), 5_608);
    assert_eq!(
        check(&train, &|route| format!("ulab.train.{route}.mean")),
        4
    );

    // What a policy may learn on the test split is what the train rows say, task by task.
    for (task, name) in test.tasks.iter().enumerate() {
        let Some(same) = train.tasks.iter().position(|known| known == name) else {
            continue;
        };
        let lab = test.examples(KEY, 0, task, 3, usize::MAX);
        let (mut n, mut sum) = (0, 0);
        each(&train, |batch, i| {
            if usize::from(batch.task[i]) == same {
                n += 1;
                sum += u64::from(batch.grade[3][i].millionths().unwrap());
            }
        });
        assert_eq!((lab.n, lab.score_sum), (n, sum), "{name}");
    }
}

#[test]
fn files_with_one_row_per_item_and_route_are_joined() {
    let Some(references) = reference("data/routing/reference_numbers.json") else {
        return;
    };
    let value = |id: &str| {
        let all = references["references"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id).unwrap()["value"]
            .as_f64()
            .unwrap()
    };
    let by_file = committed("tests/configs/routing/routerarena.toml").unwrap();
    let data = shared("data/routing/routerarena_sub10.csv").unwrap();
    // One published score is negative. It is no grade, so it has to be declared missing.
    let shown = load("routerarena_sub10.csv", &data).unwrap_err();
    assert!(
        shown.contains("`-0.0330188679245283` is not a grade"),
        "{shown}"
    );
    assert!(shown.contains("1 error\n"), "{shown}");
    let columns = "missing = [\"-0.0330188679245283\"]";
    let by_usual_names = load_with("routerarena_sub10.csv", &data, Some(columns)).unwrap();
    for world in [&by_file, &by_usual_names] {
        assert_eq!(world.len(), 809);
        assert_eq!(world.routes[0], "gemini-2.0-flash-001");
        let accuracy = value("routerarena.gemini-2.0-flash-001.accuracy");
        assert!((means(world)[0] - accuracy).abs() < 1e-6);
        let mut cost = 0;
        each(world, |batch, i| cost += batch.cost[0][i].unwrap().0);
        let expected = value("routerarena.gemini-2.0-flash-001.total_cost_usd");
        assert!((cost as f64 / 1e12 - expected).abs() < 1e-9);
    }
    let notes = by_usual_names.notes().join("\n");
    assert!(
        notes.contains("prompt tokens differ between rows of one id"),
        "{notes}"
    );
}

pub(crate) const WIDE: &str = "id,task,tenant,language,data_class,user,session,tools,difficulty_hint,input_tokens,output_tokens_a,output_tokens_b b,output_cap,prompt_chars,grade_a,grade_b b,verifier_draw_a,verifier_draw_b b,cost_a,cost_b b\n\
q1,faq,acme,de,eu-only,u1,s1,1,0.25,400,10,20,64,1600,1,0,0.5,0.25,0.001,0.02\n\
q2,code,,,,u1,,0,-0.5,,11,,,,0.5,,0.125,1,,0.5\n\
q3,faq,bank,en,,,,true,,7,12,22,,28,0,1,0,0.75,0,1e-6\n";

/// The same rows as JSON lines.
pub(crate) fn json_lines(csv: &str) -> String {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let mut lines = String::new();
    for row in reader.records() {
        let mut object = serde_json::Map::new();
        for (name, cell) in header.iter().zip(&row.unwrap()) {
            let value = match cell {
                "" => serde_json::Value::Null,
                cell => serde_json::from_str(cell).unwrap_or_else(|_| cell.into()),
            };
            object.insert(name.to_owned(), value);
        }
        lines.push_str(&serde_json::Value::Object(object).to_string());
        lines.push('\n');
    }
    lines
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_same_rows_in_every_format_are_the_same_world() {
    let expected = dump(&sound("d.csv", WIDE));
    let tabs = WIDE.replace(',', "\t");
    let crlf = format!("\u{feff}{}", WIDE.replace('\n', "\r\n"));
    let lines = json_lines(WIDE);
    for (path, data) in [
        ("d.CSV", WIDE.as_bytes()),
        ("d.tsv", tabs.as_bytes()),
        ("d.csv", crlf.as_bytes()),
        ("d.jsonl", lines.as_bytes()),
        ("d.ndjson", lines.as_bytes()),
    ] {
        assert_eq!(dump(&load(path, data).unwrap()), expected, "{path}");
        let packed = load(&format!("{path}.gz"), &gzip(data)).unwrap();
        assert_eq!(dump(&packed), expected, "{path}.gz");
    }
}

#[cfg(feature = "frames")]
#[test]
fn parquet_gives_the_same_world_as_csv() {
    use polars::prelude::*;

    let mut reader = csv::Reader::from_reader(WIDE.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let columns = header.iter().enumerate().map(|(at, name)| {
        let cells = || {
            rows.iter()
                .map(|row| Some(&row[at]).filter(|cell| !cell.is_empty()))
        };
        let numbers: Option<Vec<Option<f64>>> = cells()
            .map(|cell| cell.map_or(Some(None), |cell| cell.parse().ok().map(Some)))
            .collect();
        match numbers {
            Some(numbers) => Column::new(name.into(), numbers),
            None => Column::new(name.into(), cells().collect::<Vec<_>>()),
        }
    });
    let mut frame = DataFrame::new_infer_height(columns.collect()).unwrap();
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes).finish(&mut frame).unwrap();
    let world = load("d.parquet", &bytes).unwrap();
    assert_eq!(dump(&world), dump(&sound("d.csv", WIDE)));
    for cut in [0, 1, 4, bytes.len() / 2, bytes.len() - 1] {
        assert!(load("d.parquet", &bytes[..cut]).is_err(), "cut at {cut}");
    }
    // A flipped bit may change a value or break the file, but it never brings the program down.
    for at in (0..bytes.len()).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let _ = load("d.parquet", &flipped);
    }
}

#[cfg(not(feature = "frames"))]
#[test]
fn parquet_without_its_feature_says_what_to_build() {
    let shown = load("d.parquet", b"PAR1").unwrap_err();
    assert!(shown.contains("--features frames"), "{shown}");
}

#[test]
fn cells_mean_what_they_say_and_nothing_is_invented() {
    let world = sound("d.csv", WIDE);
    assert_eq!(world.routes, ["a", "b b"]);
    assert_eq!(world.tenants, ["acme", "bank"]);
    let mut batch = Batch::default();
    world.fill(KEY, 0, 3, &mut batch);
    assert_eq!(batch.tenant, [0, NO_NAME, 1]);
    assert_eq!(batch.tools, [true, false, true]);
    assert_eq!(batch.user[0], batch.user[1]);
    // Who is unknown is the request itself.
    assert_eq!((batch.user[2], batch.session[1]), (2, 1));
    assert!(batch.difficulty_hint[2].is_nan());
    assert_eq!(
        batch
            .input_tokens
            .iter()
            .map(|t| t.get())
            .collect::<Vec<_>>(),
        [Some(400), None, Some(7)]
    );
    assert_eq!(batch.output(1, 1).get(), None);
    assert_eq!(batch.output_cap[0].get(), Some(64));
    assert_eq!(batch.prompt_chars[0].get(), Some(1_600));
    assert_eq!(
        batch.grade[0]
            .iter()
            .map(|g| g.millionths())
            .collect::<Vec<_>>(),
        [Some(1_000_000), Some(500_000), Some(0)]
    );
    assert!(batch.grade[1][1].is_missing());
    assert_eq!(batch.verifier_lane[0], [1 << 31, 1 << 29, 0]);
    assert_eq!(batch.verifier_lane[1][1], u32::MAX);
    assert_eq!(
        batch.cost[0]
            .iter()
            .map(|c| c.map(|usd| usd.0))
            .collect::<Vec<_>>(),
        [Some(1_000_000_000), None, Some(0)]
    );
    assert_eq!(world.missing_grades(), [0, 1]);
    let notes = world.notes().join("; ");
    assert_eq!(
        notes,
        "3 rows read; 1 of 3 grades of b b are missing; 1 grades are neither 0 nor 1"
    );
}

#[test]
fn files_without_ids_tasks_or_verifier_draws_get_numbers_one_task_and_drawn_lanes() {
    let world = sound("d.csv", "grade_x,grade_y\n1,0\n0,1\n");
    assert_eq!(
        (world.tasks.as_slice(), world.request_id(1)),
        (&["all".to_owned()][..], "1".to_owned())
    );
    let lanes = |world: &Workload, replicate| {
        let mut batch = Batch::default();
        world.fill(DrawKey { replicate, ..KEY }, 0, 2, &mut batch);
        batch.verifier_lane
    };
    assert_ne!(lanes(&world, 0), lanes(&world, 1));
    // Lanes belong to the route's name, wherever its column stands.
    let turned = sound("d.csv", "grade_z,grade_y,grade_x\n1,0,1\n0,1,1\n");
    assert_eq!(lanes(&turned, 0)[2], lanes(&world, 0)[0]);
    assert_eq!(lanes(&turned, 0)[1], lanes(&world, 0)[1]);
}

#[test]
fn folds_split_rows_by_id_and_examples_come_from_the_other_fold() {
    let mut csv = "id,task,grade_x,input_tokens,output_tokens\n".to_owned();
    for row in 0..2_000 {
        // The grade tells the fold apart below, so a leak would show.
        csv.push_str(&format!("r{row},t{},1,{row},1\n", row % 2));
    }
    let world = sound("d.csv", &csv);
    let fold_of = |fold: u8| {
        (0..2_000)
            .filter(|i| world.fold(*i) == fold)
            .collect::<Vec<_>>()
    };
    let (zero, one) = (fold_of(0), fold_of(1));
    assert_eq!(zero.len() + one.len(), 2_000);
    // Binomial(2000, 1/2): five standard deviations are 112.
    assert!(zero.len().abs_diff(1_000) < 112, "{}", zero.len());
    for (fold, others) in [(0, &one), (1, &zero)] {
        let even: Vec<u64> = others.iter().copied().filter(|i| i % 2 == 0).collect();
        let all = world.examples(KEY, fold, 0, 0, usize::MAX);
        assert_eq!(
            (all.n, all.input_tokens_sum),
            (even.len() as u64, even.iter().sum())
        );
        assert_eq!(world.examples(KEY, fold, 0, 0, 7).n, 7);
        let lengths = world.lengths(KEY, fold, usize::MAX);
        let mut sorted: Vec<u64> = lengths.iter().map(|n| u64::from(*n)).collect();
        sorted.sort_unstable();
        assert_eq!(sorted, **others);
    }
    let some = |replicate| {
        world
            .examples(DrawKey { replicate, ..KEY }, 0, 0, 0, 20)
            .input_tokens_sum
    };
    assert_ne!(some(0), some(1), "replicates take other examples");
    assert_eq!(some(0), some(0));
    // The fold hangs on the id, not on the place in the file.
    let mut lines: Vec<&str> = csv.lines().collect();
    lines[1..].reverse();
    let turned = sound("d.csv", &lines.join("\n"));
    assert_eq!(turned.fold(0), world.fold(1_999));
    // Tasks are numbered as they come: here t1 comes first.
    assert_eq!(turned.tasks, ["t1", "t0"]);
    assert_eq!(
        turned.examples(KEY, 1, 0, 0, 20),
        world.examples(KEY, 1, 1, 0, 20)
    );
}

#[test]
fn a_large_matrix_is_read_whole() {
    let routes = 33;
    let mut csv = String::from("id");
    for route in 0..routes {
        csv.push_str(&format!(",grade_r{route}"));
    }
    for row in 0..20_000_u64 {
        csv.push_str(&format!("\n{row}"));
        for route in 0..routes {
            csv.push_str(if (row * 7 + route * 3) % 5 < 3 {
                ",1"
            } else {
                ",0"
            });
        }
    }
    let world = sound("d.csv", &csv);
    assert_eq!((world.len(), world.routes.len()), (20_000, 33));
    assert!(means(&world).iter().all(|mean| (mean - 0.6).abs() < 1e-9));
}

proptest! {
    #[test]
    fn recorded_batches_equal_their_rows_read_alone(first in 0..10_u64, len in 0..10_usize) {
        let rows: String = (0..8).map(|row| format!("{row},{}\n", row % 2)).collect();
        let world = sound("d.csv", &format!("id,grade_a\n{rows}"));
        let (mut batch, mut one) = (Batch::default(), Batch::default());
        world.fill(KEY, first, len, &mut batch);
        prop_assert_eq!(batch.len, len.min(8_usize.saturating_sub(first as usize)));
        for i in 0..batch.len {
            world.fill(KEY, first + i as u64, 1, &mut one);
            prop_assert_eq!(one.policy_word[0], batch.policy_word[i]);
            prop_assert_eq!(one.verifier_lane[0][0], batch.verifier_lane[0][i]);
            prop_assert_eq!(one.grade[0][0], batch.grade[0][i]);
        }
    }
}

#[test]
fn a_batch_forgets_the_workload_that_filled_it_before() {
    let recorded = sound("d.csv", WIDE);
    let text = include_str!("../../workloads/tenants.toml");
    let mut diagnostics = Diagnostics::default();
    let synthetic = parse(&SourceFile::new("w.toml", text), "w", &mut diagnostics)
        .and_then(|spec| spec.build(None, &mut diagnostics))
        .unwrap();
    let fill = |world: &Workload, batch: &mut Batch| {
        world.fill(KEY, 0, 3, batch);
        format!("{batch:?}")
    };
    let mut batch = Batch::default();
    for world in [&recorded, &synthetic, &recorded, &synthetic] {
        assert_eq!(fill(world, &mut batch), fill(world, &mut Batch::default()));
    }
}

#[test]
fn every_workload_in_the_repository_is_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut diagnostics = Diagnostics::default();
        let file = SourceFile::new(path.display().to_string(), text);
        let spec = parse(&file, "w", &mut diagnostics)
            .unwrap_or_else(|| panic!("{}", diagnostics.render(false)));
        let data = spec
            .data_path()
            .map(|data| std::fs::read(folder.join(&data.value)).unwrap());
        let world = spec
            .build(data.as_deref(), &mut diagnostics)
            .unwrap_or_else(|| panic!("{}", diagnostics.render(false)));
        let mut batch = Batch::default();
        world.fill(KEY, 0, 100, &mut batch);
        assert_eq!((batch.len, world.is_empty()), (100, false));
        found += 1;
    }
    assert!(found >= 3, "{found}");
}
