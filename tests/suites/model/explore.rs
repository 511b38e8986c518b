//! Explores a scenario to its last state.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Display,
    time::Instant,
};

use stateright::{Checker, HasDiscoveries, Model as _};

use crate::{properties::Condition, scenario::Scenario, world::World};

/// Fewer states than this, and the scenario is not about much.
const MANY: usize = 10_000;

/// All properties hold in all states, and all sights are seen.
pub(crate) fn holds(scenario: Scenario) {
    let name = scenario.name;
    let begun = Instant::now();
    let checker = scenario.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    report(name, &checker, begun);
    checker.assert_properties();
    assert!(checker.unique_state_count() > MANY, "{name} has {} states only", checker.unique_state_count());
}

/// The property is violated in some state. Prints how to get there.
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

/// No run comes to where it has been before. Every run is finite then, there being finitely many states.
pub(crate) fn ends(scenario: &Scenario) {
    let mut seen = HashMap::new();
    for world in scenario.init_states() {
        follow(scenario, world, &mut seen);
    }
}

/// Follows all runs from here. What was seen is on the way to here until all that follows from it was seen too.
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
