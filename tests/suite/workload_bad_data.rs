//! Data files that are wrong, odd, or cut: each is refused with its place, or read as it is meant.

use proptest::prelude::*;

use crate::workload_recorded::{KEY, WIDE, gzip, json_lines, load, load_with, sound};

fn refused(data: &str) -> String {
    load("d.csv", data.as_bytes()).expect_err("the file is bad")
}

#[test]
fn every_bad_cell_is_shown_with_its_line_and_column() {
    let shown = refused(
        "id,grade_a,grade_b,input_tokens\nq1,1,2,10\nq2,NaN,inf,-3\nq3,yes,-1,2.5\nq1,0,1,4\nq5,1\n",
    );
    for part in [
        "column `grade_b`: `2` is not a grade",
        "column `grade_a`: `NaN` is not a grade",
        "column `grade_b`: `inf` is not a grade",
        "column `input_tokens`: `-3` is not a whole number",
        "column `grade_a`: `yes` is not a grade",
        "column `grade_b`: `-1` is not a grade",
        "column `input_tokens`: `2.5` is not a whole number",
        "the id `q1` occurs twice",
        "the row has 2 cells, not 4",
        "--> d.csv:2:6",
        "--> d.csv:5:1",
        "--> d.csv:6:1",
        "9 errors",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn only_the_first_twenty_bad_cells_are_shown() {
    let shown = refused(&format!("grade_a\n{}", "x\n".repeat(45)));
    assert!(
        shown.contains("and 25 more problems in this file"),
        "{shown}"
    );
    assert!(shown.contains("21 errors"), "{shown}");
}

#[test]
fn a_million_bad_rows_are_counted_in_no_time() {
    let ragged = format!("id,grade_a\n{}", "x\n".repeat(1_000_000));
    assert!(refused(&ragged).contains("and 999980 more problems in this file"));
    let twice = format!("id,grade_a\n{}", "q,1\n".repeat(300_000));
    assert!(refused(&twice).contains("and 299979 more problems in this file"));
}

#[test]
fn quoted_line_feeds_and_carriage_returns_survive_and_lines_are_counted_right() {
    let data = "id,task,grade_a\r\n\"a\r\nb\",\"x\ry\",1\r\n\r\nq2,z,bad\r\n";
    let shown = refused(data);
    assert!(shown.contains("--> d.csv:5:6"), "{shown}");
    let world = sound("d.csv", &data.replace("bad", "0"));
    assert_eq!(world.request_id(0), "a\r\nb");
    assert_eq!(world.tasks, ["x\ry", "z"]);
}

#[test]
fn files_that_cannot_be_used_say_why() {
    for (data, part) in [
        ("", "the file is empty"),
        ("id,grade_a\n", "the file has no rows"),
        ("id,grade_a\nq,\n", "there is not a single grade"),
        ("id,a,b\n1,2,3\n", "no column looks like a route's grades"),
        (
            "id,grade_a,grade_a\n1,1,1\n",
            "two columns are called `grade_a`",
        ),
        ("id,grade_a\n,1\n", "column `id`: `` is not an id"),
        (
            "id,model,score\nq,a,1\nq,a,0\n",
            "the id `q` occurs twice for route `a`",
        ),
        (
            "id,task,model,score\nq,t,a,1\nq,u,b,0\n",
            "rows of the id `q` disagree on the task",
        ),
        ("id,grade_a,cost_a\nq,1,-2\n", "`-2` is not a cost in USD"),
        (
            "id,grade_a,verifier_u_a\nq,1,1.5\n",
            "`1.5` is not a verifier's uniform",
        ),
        (
            "id,grade_a,latency_ms_a\nq,1,soon\n",
            "`soon` is not milliseconds",
        ),
    ] {
        let shown = refused(data);
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let shown = load("d.csv", b"id,grade_a\nq,1\n\xe9t\xe9,1\n").unwrap_err();
    assert!(
        shown.contains("not UTF-8") && shown.contains("d.csv:3"),
        "{shown}"
    );
    let many: Vec<String> = (0..10_001).map(|n| format!("grade_{n}")).collect();
    assert!(refused(&many.join(",")).contains("more than 10000 columns"));
    assert!(refused(&many.join(",")).contains("more than 256 routes"));
    let shown = load("d.xlsx", b"").unwrap_err();
    assert!(shown.contains("known endings"), "{shown}");
    assert!(
        load("d.csv.gz", b"id,grade_a")
            .unwrap_err()
            .contains("not a sound gzip file")
    );
    let shown = load("d.jsonl", b"{\"grade_a\": 1}\n[]\n{\"grade_a\": \n").unwrap_err();
    assert!(
        shown.contains("d.jsonl:2") && shown.contains("not a JSON object"),
        "{shown}"
    );
    assert!(
        shown.contains("d.jsonl:3") && shown.contains("not JSON"),
        "{shown}"
    );
}

#[test]
fn columns_files_name_what_is_what() {
    let data = b"key,lang,m1,m2,part\na,de,1,-1,dev\nb,en,0,1,test\nc,en,,1,test\nd,fr,1,1,spare\n";
    let columns = "id = \"key\"\nlanguage = \"lang\"\ngrade = \"{route}\"\nroutes = [\"m2\", \"m1\"]\nmissing = \"-1\"\n\
        split = { column = \"part\", train = \"dev\" }\n[where]\npart = [\"dev\", \"test\"]\n";
    let world = load_with("d.csv", data, Some(columns)).unwrap();
    assert_eq!((world.len(), world.folds()), (2, 1));
    assert_eq!(world.routes, ["m2", "m1"]);
    assert_eq!(world.request_id(0), "b");
    assert_eq!(world.find_request("a"), None);
    assert_eq!(world.examples(KEY, 0, 0, 1, 10).n, 1);
    assert_eq!(world.examples(KEY, 0, 0, 0, 10).n, 0, "-1 means missing");
    assert_eq!(
        world.notes()[1..3],
        [
            "1 rows left out: only rows with part = dev or test are kept",
            "1 training rows, which are never judged"
        ]
    );
    // Numbers are compared as numbers, for formats that write 0 as 0.0.
    let columns_of_numbers =
        "id = \"key\"\ngrade = \"m{route}\"\nmissing = \"-1.0\"\n[where]\nm2 = \"1.00\"\n";
    let ones = load_with("d.csv", data, Some(columns_of_numbers)).unwrap();
    assert_eq!((ones.len(), ones.missing_grades()), (3, vec![1, 0]));
    for (from, to, part) in [
        ("\"key\"", "\"kay\"", "did you mean `key`?"),
        ("routes = [\"m2\", \"m1\"]\n", "", "list the routes"),
        ("\"m1\"]", "\"m3\"]", "the data has no column `m3`"),
        ("grade = \"{route}\"\n", "", "the columns need a `grade`"),
        ("language", "langage", "did you mean `language`?"),
        (
            "train = \"dev\"",
            "train = \"none\"",
            "no row is a training row",
        ),
        (
            "\"test\"]",
            "\"spare\"]\nlang = \"de\"",
            "every row is a training row",
        ),
        (
            "[\"dev\", \"test\"]",
            "\"gone\"",
            "none of the 4 rows is wanted",
        ),
        ("\"{route}\"", "\"m_{route}_{route}\"", "more than once"),
        ("\"lang\"", "\"lang_{route}\"", "one column for all routes"),
    ] {
        assert!(columns.contains(from), "{from}");
        let shown = load_with("d.csv", data, Some(&columns.replace(from, to))).unwrap_err();
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_readers_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for path in ["d.csv", "d.tsv", "d.jsonl", "d.csv.gz", "d.jsonl.gz", "d.parquet"] {
            let _ = load(path, &bytes);
        }
    }

    #[test]
    fn no_near_miss_makes_the_readers_panic(at in 0..400_usize, with in "[\"\\PC\n\r,{}:0-9.-]{0,6}", json: bool) {
        let mut text = if json { json_lines(WIDE) } else { WIDE.to_owned() };
        let at = at.min(text.len());
        if text.is_char_boundary(at) {
            text.insert_str(at, &with);
        }
        let _ = load(if json { "d.jsonl" } else { "d.csv" }, text.as_bytes());
        let _ = load("d.csv.gz", &gzip(text.as_bytes()));
    }
}
