//! Pages: what they hold, that nothing breaks out of them, and that they ask nobody for anything.

mod made;
mod markup;

use made::{ROUTES, everyday, hostile, hostile_names};
use markup::{Markup, read};
use routelab::report::page::{Status, VerdictLine, compare_with};
use routelab::report::{Findings, RENDERERS, Renderer, page, plots, slide};

/// Where `.ci/page` wants the pages of this file, to open them in a browser.
const FOLDER: &str = "ROUTELAB_PAGES";

fn html(findings: &Findings) -> (String, Markup) {
    let text = page::compare(findings);
    let markup = read(&text);
    (text, markup)
}

#[test]
fn a_page_is_one_whole_file_that_asks_nobody_for_anything() {
    for (name, findings) in [("everyday", everyday()), ("hostile", hostile())] {
        let (text, markup) = html(&findings);
        if let Some(folder) = std::env::var_os(FOLDER) {
            let path = std::path::Path::new(&folder).join(format!("{name}.html"));
            std::fs::write(path, &text).expect("the folder can be written to");
            let mut pictures = plots(&findings);
            pictures.push(("slide.svg".to_owned(), slide(&findings)));
            for (file, svg) in pictures {
                let path = std::path::Path::new(&folder).join(format!("{name}-{file}"));
                std::fs::write(path, svg).expect("the folder can be written to");
            }
        }
        assert!(
            text.starts_with("<!doctype html>\n<html lang=\"en\">"),
            "{name}"
        );
        assert!(text.ends_with("</html>\n"), "{name}");
        assert!(text.len() < 500_000, "{name}: {} bytes", text.len());
        let count = |tag: &str| markup.tags.iter().filter(|known| *known == tag).count();
        for tag in [
            "html", "head", "body", "main", "h1", "title", "style", "script", "header",
        ] {
            let expected = if tag == "title" { 1 + count("svg") } else { 1 };
            assert_eq!(count(tag), expected, "{name}: {tag}");
        }
        for tag in [
            "img", "iframe", "link", "object", "embed", "form", "base", "image", "use",
        ] {
            assert_eq!(count(tag), 0, "{name}: {tag}");
        }
        for (attribute, value) in &markup.attributes {
            assert!(
                !attribute.starts_with("on") && attribute != "style",
                "{name}: {attribute}"
            );
            match attribute.as_str() {
                "href" | "src" => assert!(value.starts_with('#'), "{name}: {value}"),
                "xmlns" => assert_eq!(value, "http://www.w3.org/2000/svg"),
                _ => {}
            }
        }
        let policy = "default-src &#39;none&#39;; style-src &#39;sha256-";
        assert!(text.contains(policy), "{name}");
        assert!(!text.contains("unsafe-inline"), "{name}");
    }
}

#[test]
fn ids_are_unique_and_links_and_labels_lead_somewhere() {
    for findings in [everyday(), hostile()] {
        let (_, markup) = html(&findings);
        let of = |name: &str| -> Vec<String> {
            let values = markup.attributes.iter().filter(|(known, _)| known == name);
            values.map(|(_, value)| value.clone()).collect()
        };
        let mut ids = of("id");
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "ids are not unique");
        let labels = of("aria-labelledby");
        let targets = labels
            .iter()
            .flat_map(|label| label.split(' '))
            .map(str::to_owned)
            .chain(of("href").into_iter().map(|href| href[1..].to_owned()));
        for target in targets {
            assert!(ids.contains(&target), "nothing has the id {target}");
        }
    }
}

#[test]
fn sections_come_in_the_order_in_which_one_decides() {
    let (_, markup) = html(&everyday());
    let headings: Vec<&str> = markup.headings.iter().map(String::as_str).collect();
    insta::assert_snapshot!("sections", headings.join("\n"));
}

#[test]
fn a_small_page_looks_as_reviewed() {
    let mut findings = everyday();
    findings.slices.truncate(1);
    findings.samples.truncate(1);
    let (text, _) = html(&findings);
    // Style, script and pictures have tests of their own.
    let body = text.split("<body>").nth(1).expect("a body");
    let body = body
        .split("<script>")
        .next()
        .expect("all before the script");
    let mut shown = String::new();
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("<svg ") {
        shown.push_str(before);
        shown.push_str("<svg…/>");
        rest = after.split_once("</svg>").expect("closed").1;
    }
    shown.push_str(rest);
    // Every measure of every policy is one long table of the same kind of cells.
    let (before, after) = shown.split_once("<details>").expect("folded");
    let after = after.split_once("</details>").expect("closed").1;
    insta::assert_snapshot!("small", format!("{before}<details…/>{after}"));
}

#[test]
fn verdicts_of_a_gate_come_first_with_sign_and_word() {
    let line = VerdictLine {
        status: Status::Fail,
        word: "FAIL (simulated)".to_owned(),
        subject: "orders <b>".to_owned(),
        claim: "not worse by more than 3 points".to_owned(),
        measured: "-5.0 [-6.0, -4.0] points".to_owned(),
        remark: "reroutes 12 %".to_owned(),
    };
    let text = compare_with(&everyday(), &[line]);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}"));
    assert!(at("FAIL (simulated)") < at("non-inferior"));
    assert!(text.contains("<span class=\"sign\" aria-hidden=\"true\">✗</span> FAIL (simulated)"));
    assert!(text.contains("orders &lt;b&gt;"));
    read(&text);
}

#[test]
fn every_number_of_a_policy_has_its_interval_its_method_and_its_n() {
    let (text, _) = html(&everyday());
    let row = text
        .split("<th scope=\"row\" class=\"short\"><bdi>cascade</bdi>")
        .nth(1)
        .expect("a row");
    let row = row.split("</tr>").next().expect("an end");
    for part in [
        "95 % interval by Wilson&#39;s score, n = 600",
        "95 % interval by the normal curve, n = 600",
    ] {
        // Once for the mouse, once for whoever listens.
        assert!(row.matches(part).count() >= 2, "{part}: {row}");
    }
    assert!(row.contains("class=\"aside w"), "{row}");
}

#[test]
fn a_month_is_priced_where_a_volume_is_known() {
    let mut findings = everyday();
    assert!(!html(&findings).0.contains("USD a month"));
    findings.volume = Some(40e6);
    let (text, _) = html(&findings);
    assert!(text.contains("USD a month") && text.contains("At 40,000,000 requests a month"));
}

#[test]
fn hostile_names_are_text_in_every_output() {
    let findings = hostile();
    let (html, _) = html(&findings);
    let mut pictures = plots(&findings);
    assert_eq!(
        pictures
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["accuracy-cost.svg", "promotion.svg", "slices.svg"]
    );
    pictures.push(("slide.svg".to_owned(), slide(&findings)));
    for (name, svg) in &pictures {
        let markup = read(svg);
        for tag in &markup.tags {
            let known = [
                "svg", "text", "rect", "circle", "polyline", "polygon", "line", "path",
            ];
            assert!(known.contains(&tag.as_str()), "{name}: <{tag}>");
        }
    }
    let mut texts: Vec<(String, String)> = RENDERERS
        .iter()
        .map(|renderer| (renderer.name.to_owned(), (renderer.render)(&findings)))
        .collect();
    texts.extend(pictures);
    for (name, text) in &texts {
        assert!(!text.contains('\u{1b}'), "{name}");
        if name != "csv" && name != "json" {
            for c in ['\u{202e}', '\u{2066}', '\u{200b}'] {
                assert!(!text.contains(c), "{name}: {c:?}");
            }
        }
        if name != "csv" && name != "json" && name != "table" {
            for part in ["<script>alert", "<img", "</style><", "<!--"] {
                assert!(!text.contains(part), "{name}: {part}");
            }
        }
    }
    let text = |name: &str| (Renderer::named(name).expect("a renderer").render)(&findings);
    assert!(!text("markdown").contains('<'));
    let json: serde_json::Value = serde_json::from_str(&text("json")).expect("JSON");
    let mut csv = csv::Reader::from_reader(text("csv").into_bytes().leak() as &[u8]);
    for record in csv.records() {
        for field in record.expect("a record").iter() {
            assert!(!field.starts_with(['=', '+', '@']), "{field}");
        }
    }
    let long = "x".repeat(300);
    for name in hostile_names() {
        // In JSON as they came; in the page somewhere whole, as text.
        let rows = json["rows"].as_array().expect("rows");
        assert!(
            rows.iter().any(|row| row["policy"] == name.as_str()),
            "{name}"
        );
    }
    assert!(html.contains(&format!("title=\"{long}\"")));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(ROUTES.len(), findings.routes.len());
}

#[test]
fn the_same_findings_give_the_same_pictures() {
    let findings = everyday();
    assert_eq!(plots(&findings), plots(&everyday()));
    assert_eq!(slide(&findings), slide(&everyday()));
    assert_eq!(page::compare(&findings), page::compare(&everyday()));
}

#[test]
fn a_slide_carries_the_verdict_the_evidence_and_the_days_of_the_prices() {
    let mut findings = everyday();
    let text = slide(&findings);
    for part in [
        "simulated: a model of the world",
        "says nothing about real models",
        "prices of 2026-10-01",
        "seed 2026",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let words: String = text
        .lines()
        .filter(|line| !line.starts_with('<'))
        .collect::<Vec<_>>()
        .join(" ");
    for word in findings.summary.split(' ').take(12) {
        assert!(words.contains(word), "{word} is not on the slide");
    }
    // Dots have their names.
    for name in ["cascade", "eval-driven", "static"] {
        assert!(text.contains(&format!("\n{name}\n")), "{name}");
    }
    findings.workload.evidence = routelab::sim::Evidence::Paired;
    assert!(!slide(&findings).contains("says nothing about real models"));
    findings.summary = "word ".repeat(2_000);
    let cut = slide(&findings);
    assert!(cut.contains('…') && cut.len() < 100_000);
}
