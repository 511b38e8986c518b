use std::collections::BTreeSet;

use super::*;
use crate::spread::Spread;

#[test]
fn bars_are_well_formed_and_name_every_series_label_and_figure() {
    for plot in [one_bar(), many_bars(), far_apart(), tiny(), missing()] {
        let texts = texts(&plot);
        let PlotKind::Bars { labels, series } = &plot.kind else { unreachable!("it has bars") };
        for (name, figures) in series {
            assert!(texts.contains(name), "{name} in {texts:?}");
            for figure in figures {
                let figure = figure.map_or("–".to_owned(), |figure| crate::format::figure(figure.median));
                assert!(texts.contains(&figure), "{figure} in {texts:?}");
            }
        }
        for text in labels.iter().chain([&plot.title, &plot.unit]) {
            let line = text::wrapped(text, bars::LABELS_AT_MOST, text::SIZE).remove(0);
            assert!(texts.iter().any(|text| text.starts_with(&line)), "{line} in {texts:?}");
        }
    }
}

#[test]
fn lines_are_well_formed_and_name_every_series() {
    for plot in [two_points(), five_lines(), far_apart_lines(), one_point()] {
        let texts = texts(&plot);
        let PlotKind::Lines { axis, series } = &plot.kind else { unreachable!("it has lines") };
        for (name, _) in series {
            assert!(texts.contains(name), "{name} in {texts:?}");
        }
        assert!(texts.iter().any(|text| text.starts_with(axis)), "{axis} in {texts:?}");
        assert!(texts.iter().any(|text| text.starts_with(&plot.unit)), "{} in {texts:?}", plot.unit);
    }
}

#[test]
fn the_same_plot_gives_the_same_bytes() -> Result<(), Error> {
    assert_eq!(svg(&many_bars())?, svg(&many_bars())?);
    assert_eq!(svg(&five_lines())?, svg(&five_lines())?);
    Ok(())
}

#[test]
fn a_bar_is_as_long_as_its_median_and_its_whisker_goes_from_the_least_to_the_greatest() -> Result<(), Error> {
    let figure = Spread { median: 2.0, min: 0.5, max: 3.0 };
    let svg = svg(&bars("length", &["a"], &[("one", &[Some(figure)]), ("two", &[Some(spread(1.0))])]))?;
    let document = roxmltree::Document::parse(&svg)?;
    // The background and the colors in the legend come first.
    let rectangles = document.descendants().filter(|node| node.has_tag_name("rect")).skip(3);
    let rectangles: Vec<_> = rectangles.map(|node| (length(node, "x"), length(node, "width"))).collect();
    let [(start, two), (_, one)] = rectangles[..] else { panic!("not two bars: {rectangles:?}") };
    let unit = two / 2.0;
    let is_about = |one: f64, other: f64| (one - other).abs() <= 1.0;
    assert!(is_about(one, unit), "{rectangles:?}");

    let whisker = [start + 0.5 * unit, start + 3.0 * unit];
    let mut lines = document.descendants().filter(|node| node.has_tag_name("polyline")).filter_map(ends);
    assert!(lines.any(|[(left, _), (right, _)]| is_about(left, whisker[0]) && is_about(right, whisker[1])), "{svg}");
    Ok(())
}

#[test]
fn a_line_goes_through_its_medians() -> Result<(), Error> {
    let figure = |median| Spread { median, min: 0.0, max: 5.0 };
    let points = vec![(10.0, figure(0.0)), (1_000.0, figure(4.0)), (100.0, figure(1.0))];
    let kind = PlotKind::Lines { axis: "rows".to_owned(), series: vec![("one".to_owned(), points)] };
    let svg = svg(&plot("medians", kind))?;
    let document = roxmltree::Document::parse(&svg)?;
    let points = document.descendants().filter(|node| node.has_tag_name("circle"));
    let points: Vec<_> = points.map(|node| (length(node, "cx"), length(node, "cy"))).collect();
    let [ten, hundred, thousand] = points[..] else { panic!("not three points: {points:?}") };
    assert!(ten.1 - thousand.1 > 200.0, "{points:?}");
    // From factor to factor it is as far, and four times as high as one is four times as high.
    assert!(((thousand.0 - hundred.0) - (hundred.0 - ten.0)).abs() <= 1.0, "{points:?}");
    assert!(((ten.1 - thousand.1) - 4.0 * (ten.1 - hundred.1)).abs() <= 4.0, "{points:?}");
    let mut lines = document.descendants().filter(|node| node.has_tag_name("polyline")).filter_map(ends);
    assert!(lines.any(|line| line == [ten, thousand]), "{svg}");
    Ok(())
}

#[test]
fn nothing_stands_outside_of_the_picture() -> Result<(), Error> {
    for plot in [
        one_bar(),
        many_bars(),
        far_apart(),
        tiny(),
        missing(),
        two_points(),
        five_lines(),
        far_apart_lines(),
        one_point(),
    ] {
        let svg = svg(&plot)?;
        let document = roxmltree::Document::parse(&svg)?;
        let root = document.root_element();
        let (width, height) = (length(root, "width"), length(root, "height"));
        for node in document.descendants().filter(|node| node.has_tag_name("text")) {
            let text = node.text().unwrap_or_default().trim();
            let (x, y) = (length(node, "x"), length(node, "y"));
            let estimate = f64::from(text::width(text, text::SIZE));
            let (left, right) = match node.attribute("text-anchor") {
                Some("end") => (x - estimate, x),
                Some("middle") => (x - estimate / 2.0, x + estimate / 2.0),
                _ => (x, x + estimate),
            };
            assert!(left >= 0.0 && right <= width && y > 0.0 && y <= height, "{text} of {}", plot.name);
        }
    }
    Ok(())
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let without = bars("without", &["a"], &[("one", &[None])]);
    assert_eq!(svg(&without).expect_err("it has no figure").to_string(), "plot without: there is nothing to draw");
    assert!(svg(&bars("uneven", &["a", "b"], &[("one", &[Some(spread(1.0))])])).is_err());
    assert!(svg(&lines("zero", &[("one", &[(0.0, 1.0)])])).is_err());
}

/// To look at: `PLOTS=<directory> cargo test -p benchmarks plots_to_look_at -- --ignored`.
#[test]
#[ignore = "writes the plots of these tests to the directory that PLOTS names, for a person to look at"]
fn plots_to_look_at() -> Result<(), Error> {
    let directory = std::path::PathBuf::from(std::env::var_os("PLOTS").expect("PLOTS names a directory"));
    for plot in [
        one_bar(),
        many_bars(),
        far_apart(),
        tiny(),
        missing(),
        two_points(),
        five_lines(),
        far_apart_lines(),
        one_point(),
    ] {
        std::fs::write(directory.join(plot.name).with_extension("svg"), svg(&plot)?)?;
    }
    Ok(())
}

fn texts(plot: &Plot) -> BTreeSet<String> {
    let svg = svg(plot).expect("it can be drawn");
    let document = roxmltree::Document::parse(&svg).expect("it is XML");
    let texts = document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
    texts.map(|text| text.trim().to_owned()).collect()
}

fn length(node: roxmltree::Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|length| length.parse().ok()).unwrap_or(f64::NAN)
}

/// The first and the last point of a line.
fn ends(line: roxmltree::Node<'_, '_>) -> Option<[(f64, f64); 2]> {
    let points = line.attribute("points")?.split_whitespace();
    let points: Option<Vec<(f64, f64)>> =
        points.map(|point| point.split_once(',').and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)))).collect();
    let points = points?;
    Some([*points.first()?, *points.last()?])
}

fn one_bar() -> Plot {
    bars("one_bar", &["4 KiB string"], &[("hash", &[Some(spread(0.93))])])
}

fn many_bars() -> Plot {
    let labels = [
        "first call, transactional, with a key that was never seen before",
        "first call, reserved",
        "replay",
        "replay of a finished key that this process has seen before, from its own cache",
        "1 ms round trips",
        "map<string, string> & \"quotes\"",
        "a_label_without_any_space_in_it_that_is_longer_than_its_column",
        "sweep",
    ];
    let names = [
        "bare handler",
        "tonic-idempotency, transactional",
        "tonic-idempotency, reserved",
        "the sequence of FUN-15: look up, reserve, handle, complete",
        "a primary-key SELECT",
    ];
    let figures: Vec<Vec<_>> = (0..names.len())
        .map(|series| {
            (0..labels.len()).map(|label| Some(spread(400.0 + (series * 971 + label * 379) as f64 % 2_000.0))).collect()
        })
        .collect();
    let series: Vec<_> = names.into_iter().zip(figures.iter().map(Vec::as_slice)).collect();
    bars("many_bars", &labels, &series)
}

fn far_apart() -> Plot {
    let one = [1.0, 40.0, 2_345.0, 100_000.0].map(|figure| Some(spread(figure)));
    let other = [3.0, 90.0, 800.0, 42_000.0].map(|figure| Some(spread(figure)));
    bars("far_apart", &["90 B", "1 KiB", "11 KB", "1 MiB"], &[("canonical", &one), ("DynamicMessage", &other)])
}

fn tiny() -> Plot {
    bars("tiny", &["a", "b"], &[("one", &[Some(spread(0.002)), Some(spread(0.0013))])])
}

fn missing() -> Plot {
    let one = [Some(spread(2.0)), None, Some(spread(1.5))];
    let other = [None, Some(Spread { median: 0.0, min: 0.0, max: 0.0 }), Some(spread(1.1))];
    bars("missing", &["a", "b", "c"], &[("one", &one), ("other", &other)])
}

fn one_point() -> Plot {
    lines("one_point", &[("alone", &[(16.0, 3.0)])])
}

fn two_points() -> Plot {
    lines("two_points", &[("claim", &[(10_000.0, 1.21), (10_000_000.0, 1.43)])])
}

fn far_apart_lines() -> Plot {
    lines(
        "far_apart_lines",
        &[
            ("claim", &[(1.0, 0.002), (10.0, 0.02), (1_000_000.0, 40.0), (10_000_000.0, 1_234_567.0)]),
            ("sweep", &[(1.0, 1.0), (12.0, 800.0), (1_000_000.0, 90_000.0)]),
        ],
    )
}

fn five_lines() -> Plot {
    lines(
        "five_lines",
        &[
            ("bare handler", &[(1.0, 900.0), (16.0, 5_200.0), (1_000.0, 6_100.0)]),
            ("transactional", &[(1.0, 700.0), (16.0, 4_000.0), (1_000.0, 4_800.0)]),
            ("reserved", &[(1.0, 400.0), (16.0, 2_900.0), (1_000.0, 3_000.0)]),
            ("FUN-15", &[(1.0, 300.0), (16.0, 1_500.0), (1_000.0, 1_600.0)]),
            ("replay", &[(1.0, 1_200.0), (16.0, 4_900.0), (1_000.0, 4_700.0)]),
        ],
    )
}

fn bars(name: &'static str, labels: &[&str], series: &[(&str, &[Option<Spread>])]) -> Plot {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    let series = series.iter().map(|(name, figures)| ((*name).to_owned(), figures.to_vec())).collect();
    plot(name, PlotKind::Bars { labels, series })
}

fn lines(name: &'static str, series: &[(&str, &[(f64, f64)])]) -> Plot {
    let spreads = |points: &[(f64, f64)]| points.iter().map(|(place, figure)| (*place, spread(*figure))).collect();
    let series = series.iter().map(|(name, points)| ((*name).to_owned(), spreads(points))).collect();
    plot(name, PlotKind::Lines { axis: "rows in the table".to_owned(), series })
}

fn plot(name: &'static str, kind: PlotKind) -> Plot {
    let title = format!("Throughput of what is called {name}, against the bare handler");
    Plot { name, title, unit: "calls per second".to_owned(), kind }
}

fn spread(median: f64) -> Spread {
    Spread { median, min: median * 0.9, max: median * 1.15 }
}
