//! Same inputs and seed, same bytes: whatever the number of threads, whoever else takes part.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::given::{is_comparison, project};
use crate::program::{run, run_in};

const SUPPORT: &str = "workloads/support.toml";
const RECORDED: &str = "workloads/lesson-recorded.toml";

/// Every file of the report of a run, by name.
fn report(arguments: &[&str]) -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    run(&[arguments, &["--quiet", "--report", path.to_str().unwrap()]].concat()).fine();
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    assert!(is_comparison(&names), "{names:?}");
    files
}

#[test]
fn reports_are_equal_byte_for_byte_at_1_2_and_7_threads() {
    // 250,000 requests are four chunks, the last one cut short.
    let synthetic = ["compare", SUPPORT, "--requests", "250k"];
    for arguments in [
        &synthetic[..],
        &[&synthetic[..], &["--replicates", "3"]].concat(),
        &["compare", RECORDED],
        &["compare", RECORDED, "--replicates", "3"],
    ] {
        let one = report(&[arguments, &["--threads", "1"]].concat());
        for threads in ["2", "7"] {
            let many = report(&[arguments, &["--threads", threads]].concat());
            assert!(one == many, "{arguments:?} at {threads} threads");
        }
        assert!(
            one == report(&[arguments, &["--threads=1"]].concat()),
            "{arguments:?} again"
        );
        let other = report(&[arguments, &["--threads", "1", "--seed", "2027"]].concat());
        // The manifest always differs by the seed; the numbers must, too.
        let numbers = |files: &[(String, Vec<u8>)]| files[3].clone();
        assert!(
            numbers(&one) != numbers(&other),
            "{arguments:?} with another seed"
        );
    }
}

#[test]
fn the_manifest_holds_digests_that_match_and_no_absolute_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let absolute = |path: &str| project(path).to_str().unwrap().to_owned();
    let arguments = [
        "compare",
        &absolute(RECORDED),
        &format!("--routes={}", absolute("policies/routes.toml")),
        "-p",
        &absolute("policies/static.toml"),
        &format!("-p{}", absolute("policies/cascade.toml")),
        "--threads=2",
        "--report",
        path.to_str().unwrap(),
        "-q",
    ];
    run(&arguments).fine();
    let text = fs::read_to_string(path.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let digests = |key: &str, root: &Path| -> Vec<String> {
        manifest[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let name = entry["path"].as_str().unwrap().to_owned();
                let bytes = fs::read(root.join(&name)).unwrap();
                assert_eq!(
                    entry["sha256"],
                    routelab::report::sha256_hex(&bytes).as_str(),
                    "{name}"
                );
                name
            })
            .collect()
    };
    assert_eq!(
        digests("inputs", &project("")),
        [
            "workloads/lesson-recorded.toml",
            "workloads/data/lesson-requests.csv.gz",
            "policies/routes.toml",
            "policies/static.toml",
            "policies/cascade.toml",
        ]
    );
    let mut written = digests("outputs", &path);
    written.push("manifest.json".to_owned());
    assert!(is_comparison(&written), "{written:?}");
    assert_eq!(
        manifest["command"],
        serde_json::json!([
            "routelab",
            "compare",
            "workloads/lesson-recorded.toml",
            "--routes=policies/routes.toml",
            "-p",
            "policies/static.toml",
            "-ppolicies/cascade.toml",
        ])
    );
    // Nor is there one when the files lie outside the present folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("out");
    run_in(
        elsewhere.path(),
        &[&arguments[..7], &["--report", outside.to_str().unwrap()]].concat(),
    )
    .fine();
    let folder = elsewhere.path().to_str().unwrap();
    for entry in fs::read_dir(&outside).unwrap() {
        let entry = entry.unwrap();
        let (name, bytes) = (entry.file_name(), fs::read(entry.path()).unwrap());
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(folder), "{name:?}");
        // In digests of a page's style, and at the ends of a picture's tags, such a slash is no path.
        let is_markup = [".html", ".svg"]
            .iter()
            .any(|ending| name.to_string_lossy().ends_with(ending));
        if !is_markup && std::str::from_utf8(&bytes).is_ok() {
            assert!(!text.contains("\"/") && !text.contains("=/"), "{name:?}");
        }
    }
}

fn json(arguments: &[&str]) -> Value {
    run(&[arguments, &["--format", "json", "-q"]].concat()).json()
}

/// The rows, by name, as text.
fn rows(findings: &Value) -> Vec<(String, Value)> {
    findings["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["policy"].as_str().unwrap().to_owned(), row.clone()))
        .collect()
}

/// The comparisons, but for what says how many policies were tested together.
fn comparisons(findings: &Value) -> Vec<Value> {
    let mut all = findings["paired"].as_array().unwrap().clone();
    for pair in all.iter_mut().filter_map(Value::as_object_mut) {
        for key in ["verdict", "p_holm", "family"] {
            assert!(pair.remove(key).is_some(), "{key}");
        }
    }
    all
}

#[test]
fn a_policy_has_the_same_numbers_alone_and_beside_others_in_any_order() {
    for world in [SUPPORT, RECORDED] {
        let together = json(&["compare", world, "--requests", "6000", "--replicates", "2"]);
        let all = rows(&together);
        let mut names: Vec<String> = fs::read_dir(project("policies"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "toml"))
            .map(|path| path.to_str().unwrap().to_owned())
            .filter(|path| !path.ends_with("routes.toml"))
            .collect();
        names.sort();
        for path in &names {
            let alone = json(&[
                "compare",
                world,
                "--requests",
                "6000",
                "--replicates",
                "2",
                "-p",
                path,
            ]);
            for row in rows(&alone) {
                assert!(all.contains(&row), "{} of {path} on {world}", row.0);
            }
            let together = comparisons(&together);
            for pair in comparisons(&alone) {
                assert!(together.contains(&pair), "{path}: {pair}");
            }
        }
        let mut backwards = vec!["compare", world, "--requests", "6000", "--replicates", "2"];
        for path in names.iter().rev() {
            backwards.extend(["-p", path]);
        }
        let backwards = rows(&json(&backwards));
        assert_eq!(backwards.len(), all.len());
        assert!(backwards.iter().all(|row| all.contains(row)));
        assert!(backwards != all);
    }
}

#[test]
fn a_route_that_is_added_does_not_change_the_others_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        fs::write(folder.path().join(name), text).unwrap();
    };
    let routes = fs::read_to_string(project("policies/routes.toml")).unwrap();
    let world = fs::read_to_string(project(SUPPORT)).unwrap();
    let model = world[world.find("[synthetic.model.large]").unwrap()..].to_owned();
    let route =
        &routes[routes.find("[route.large]").unwrap()..routes.find("# Where data").unwrap()];
    write("routes.toml", routes.clone());
    write("w.toml", world.clone());
    // The new one stands first, so that every index moves.
    let new_route = route.replace("route.large", "route.a-new-one");
    let at = routes.find("[route.small]").unwrap();
    write(
        "more.toml",
        format!("{}{new_route}{}", &routes[..at], &routes[at..]),
    );
    let new_model = model.replace("model.large", "model.a-new-one");
    let at = world.find("# P(right answer)").unwrap();
    let more = format!("{}\n{new_model}\n{}", &world[..at], &world[at..]);
    fs::create_dir(folder.path().join("more")).unwrap();
    write("more/w.toml", more);
    // A policy that may pick among all routes is told which; a mix draws at random.
    write(
        "mix.toml",
        "[mix]\nweight = { small = 1, large = 2 }\n".to_owned(),
    );
    write(
        "eval.toml",
        "[eval-driven]\ntarget = 0.88\notherwise = \"large\"\nroutes = [\"small\", \"medium\", \"large\"]\n"
            .to_owned(),
    );
    let mut shipped = vec![
        "-p".to_owned(),
        "mix.toml".to_owned(),
        "-p".to_owned(),
        "eval.toml".to_owned(),
    ];
    for name in ["canary", "capability-cost", "cascade", "shadow", "static"] {
        shipped.push(format!(
            "-p{}",
            project(&format!("policies/{name}.toml")).display()
        ));
    }
    let shipped: Vec<&str> = shipped.iter().map(String::as_str).collect();
    let run = |world: &str, routes: &str| {
        let fixed = [
            "compare", world, "--routes", routes, "--format", "json", "-q",
        ];
        rows(
            &run_in(
                folder.path(),
                &[&fixed[..], &["--requests", "20k"], &shipped].concat(),
            )
            .json(),
        )
    };
    let before = run("w.toml", "routes.toml");
    let after = run("more/w.toml", "more.toml");
    assert!(after.iter().any(|(name, _)| name == "always-a-new-one"));
    let mut compared = 0;
    for (name, row) in &before {
        // These look at all routes there are, so they may do better with one more.
        if ["task-means", "oracle", "length"].contains(&name.as_str()) || row["mix_of"].is_string()
        {
            continue;
        }
        let (_, mut again) = after
            .iter()
            .find(|(other, _)| other == name)
            .unwrap()
            .clone();
        let shares = again["metrics"]["final_share"].as_object_mut().unwrap();
        assert_eq!(shares.remove("a-new-one").unwrap()["value"], 0.0, "{name}");
        assert_eq!(row["metrics"], again["metrics"], "{name}");
        compared += 1;
    }
    assert_eq!(compared, 7 + 3);
}
