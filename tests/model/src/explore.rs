//! Explores all states of a scenario.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Display,
    time::Instant,
};

use stateright::{Checker, HasDiscoveries, Model as _};

use crate::{properties::Condition, scenario::Scenario, world::World};

/// A scenario with fewer states than this is too small to show much.
const MANY: usize = 10_000;

/// Asserts that all properties hold in all states, and that all sights are seen.
pub(crate) fn holds(scenario: Scenario) {
    let name = scenario.name;
    let begun = Instant::now();
    let checker = scenario.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    report(name, &checker, begun);
    checker.assert_properties();
    assert!(checker.unique_state_count() > MANY, "{name} has only {} states", checker.unique_state_count());
}

/// Asserts that the property is violated in some state. Prints the path to it.
pub(crate) fn violates(scenario: Scenario, (law, _): Condition) {
    let name = match scenario.left_out {
        Some(guard) => format!("{}, without {guard:?}, violates \"{law}\"", scenario.name),
        None => format!("{} violates \"{law}\"", scenario.name),
    };
    let begun = Instant::now();
    let found = HasDiscoveries::AllOf(BTreeSet::from([law]));
    let checker = scenario.checker().finish_when(found).spawn_bfs().join();
    report(&name, &checker, begun);
    let path = checker.discovery(law).unwrap_or_else(|| panic!("not found: {name}"));
    print(path);
}

/// Asserts that no run returns to an earlier state. As there are finitely many states, every run is then finite.
pub(crate) fn ends(scenario: &Scenario) {
    let mut seen = HashMap::new();
    for world in scenario.init_states() {
        follow(scenario, world, &mut seen);
    }
}

/// Follows all runs from here. A state is on the way until everything that follows from it has been visited.
fn follow(scenario: &Scenario, world: World, seen: &mut HashMap<World, Seen>) {
    match seen.get(&world) {
        Some(Seen::Done) => return,
        Some(Seen::OnTheWay) => panic!("{} runs in a circle, through {world:#?}", scenario.name),
        None => {}
    }
    seen.insert(world.clone(), Seen::OnTheWay);
    for next in scenario.next_states(&world) {
        follow(scenario, next, seen);
    }
    seen.insert(world, Seen::Done);
}

enum Seen {
    Done,
    OnTheWay,
}

fn report(name: &str, checker: &impl Checker<Scenario>, begun: Instant) {
    let (unique, depth) = (checker.unique_state_count(), checker.max_depth());
    print(format_args!("{name}: {unique} states, up to {depth} steps, {:.1?}", begun.elapsed()));
}

#[expect(clippy::print_stderr, reason = "how much was explored, and how a law was violated, is worth knowing")]
fn print(line: impl Display) {
    eprintln!("{line}");
}
