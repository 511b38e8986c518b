//! Keeps track of the savepoints of a transaction.

/// The transaction itself, or one of its savepoints. They are numbered in the order in which they are set, and a number is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(usize);

impl Level {
    /// The transaction itself.
    pub const TRANSACTION: Self = Self(0);
}

/// The levels of one transaction, which are itself and the savepoints inside of it, as the server has them: for drivers with
/// handles that outlive the order in which savepoints end. Each change returns the SQL that makes the same change in the
/// server; the caller sends it before the next change.
#[derive(Debug)]
pub struct Levels {
    transaction: State,
    /// All savepoints that there have been: most transactions have none.
    savepoints: Vec<State>,
    /// Those that the server has, the innermost last.
    open: Vec<Level>,
}

#[derive(Debug)]
struct State {
    parent: Level,
    end: Option<End>,
    /// A statement in it has lost against another transaction.
    in_conflict: bool,
    /// The answer of a statement in it is not known.
    unanswered: bool,
}

/// The end of a level, done or due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was dropped, and is rolled back before the next statement.
    Due,
    /// It is a part of its parent.
    Released,
    RolledBack,
}

impl State {
    fn new(parent: Level) -> Self {
        Self { parent, end: None, in_conflict: false, unanswered: false }
    }
}

impl Levels {
    /// The levels of a transaction without savepoints.
    pub fn new() -> Self {
        Self { transaction: State::new(Level::TRANSACTION), savepoints: Vec::new(), open: Vec::new() }
    }

    /// Returns the level that statements belong to.
    pub fn innermost(&self) -> Level {
        self.open.last().copied().unwrap_or(Level::TRANSACTION)
    }

    /// Returns whether a level has not ended, neither on its own nor together with one around it.
    pub fn is_open(&self, level: Level) -> bool {
        level == Level::TRANSACTION || self.open.contains(&level)
    }

    /// Sets a savepoint. [`not_set`](Self::not_set) takes this back if the server refuses.
    pub fn set(&mut self) -> (Level, String) {
        self.savepoints.push(State::new(self.innermost()));
        let level = Level(self.savepoints.len());
        self.open.push(level);
        (level, format!("SAVEPOINT {};", name(level)))
    }

    /// Takes a savepoint back that the server has not set.
    pub fn not_set(&mut self, level: Level) {
        if self.is_open(level) {
            self.state_mut(level).end = Some(End::Released);
            self.open.retain(|open| *open != level);
        }
    }

    /// Releases a savepoint and all inside of it; `None` if it has ended. [`not_released`](Self::not_released) takes this
    /// back if the server refuses.
    pub fn release(&mut self, level: Level) -> Option<String> {
        self.end_from(level, End::Released)?;
        Some(format!("RELEASE SAVEPOINT {};", name(level)))
    }

    /// Schedules the rollback of a savepoint whose release was refused, because a statement in it has failed.
    pub fn not_released(&mut self, level: Level) {
        let State { parent, end, .. } = *self.state(level);
        if end == Some(End::Released) && self.is_open(parent) {
            let inside = self.open.iter().position(|open| *open == parent).map_or(0, |position| position + 1);
            self.open.insert(inside, level);
            self.state_mut(level).end = Some(End::Due);
        }
    }

    /// Schedules the rollback of a savepoint before the next statement, unless it has ended.
    pub fn roll_back(&mut self, level: Level) {
        if self.is_open(level) {
            self.state_mut(level).end = Some(End::Due);
        }
    }

    /// Rolls back what is due; `None` if nothing is. One statement is enough: the outermost savepoint takes all inside of
    /// it along.
    pub fn roll_back_due(&mut self) -> Option<String> {
        let level = self.open.iter().copied().find(|level| self.is_due(*level))?;
        self.end_from(level, End::RolledBack)?;
        Some(format!("ROLLBACK TO SAVEPOINT {name}; RELEASE SAVEPOINT {name};", name = name(level)))
    }

    /// Notes that a statement has lost against another transaction. `level` is where it was sent.
    pub fn note_conflict(&mut self, level: Level) {
        match self.kept_in(level) {
            Some(level) => self.state_mut(level).in_conflict = true,
            // Sent, perhaps, after the rollback.
            None => self.note_unanswered(level),
        }
    }

    /// Notes that the answer of a statement will not be known. `level` is where it was sent.
    pub fn note_unanswered(&mut self, mut level: Level) {
        while !self.is_open(level) {
            level = self.state(level).parent;
        }
        self.state_mut(level).unanswered = true;
    }

    /// Returns whether the transaction has lost, apart from savepoints whose rollback is due.
    pub fn are_in_conflict(&self) -> bool {
        self.remaining().any(|state| state.in_conflict)
    }

    /// Returns whether a statement may have failed without being noticed.
    pub fn have_unanswered(&self) -> bool {
        self.remaining().any(|state| state.unanswered)
    }

    /// All levels that are not rolled back, now or before the next statement.
    fn remaining(&self) -> impl Iterator<Item = &State> {
        let remain = self.open.iter().take_while(|level| !self.is_due(**level)).count();
        let remaining = &self.open[..remain];
        let remains = |level: &Level| *level == Level::TRANSACTION || remaining.contains(level);
        let levels = (0..=self.savepoints.len()).map(Level);
        levels.filter(move |level| self.kept_in(*level).as_ref().is_some_and(remains)).map(|level| self.state(level))
    }

    /// Returns the open level that a level has become part of; `None` if it was rolled back.
    fn kept_in(&self, mut level: Level) -> Option<Level> {
        while self.state(level).end == Some(End::Released) {
            level = self.state(level).parent;
        }
        Some(level).filter(|level| self.is_open(*level))
    }

    fn is_due(&self, level: Level) -> bool {
        self.state(level).end == Some(End::Due)
    }

    /// Ends a level and all inside of it; `None` if it has ended.
    fn end_from(&mut self, level: Level, end: End) -> Option<()> {
        let position = self.open.iter().position(|open| *open == level)?;
        for level in self.open.split_off(position) {
            self.state_mut(level).end = Some(end);
        }
        Some(())
    }

    fn state(&self, level: Level) -> &State {
        level.0.checked_sub(1).map_or(&self.transaction, |index| &self.savepoints[index])
    }

    fn state_mut(&mut self, level: Level) -> &mut State {
        match level.0.checked_sub(1) {
            None => &mut self.transaction,
            Some(index) => &mut self.savepoints[index],
        }
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self::new()
    }
}

fn name(level: Level) -> String {
    format!("idempotency_{}", level.0)
}

#[cfg(test)]
mod tests {
    use super::{Level, Levels};

    fn set<const N: usize>(levels: &mut Levels) -> [Level; N] {
        std::array::from_fn(|_| levels.set().0)
    }

    #[test]
    fn one_rollback_is_sent_for_all_that_are_due() {
        for order in [[0, 1], [1, 0]] {
            let mut levels = Levels::new();
            let savepoints: [_; 3] = set(&mut levels);
            for index in order {
                levels.roll_back(savepoints[index]);
            }
            let outermost = "ROLLBACK TO SAVEPOINT idempotency_1; RELEASE SAVEPOINT idempotency_1;";
            assert_eq!(levels.roll_back_due().as_deref(), Some(outermost));
            assert_eq!(levels.roll_back_due(), None);
            assert!(savepoints.iter().all(|savepoint| !levels.is_open(*savepoint)));
        }
    }

    #[test]
    fn a_release_takes_the_inner_ones_along() {
        let mut levels = Levels::new();
        let [outer, inner] = set(&mut levels);
        assert_eq!(levels.release(outer).as_deref(), Some("RELEASE SAVEPOINT idempotency_1;"));
        assert_eq!(levels.release(inner), None);
        levels.roll_back(inner);
        assert_eq!((levels.roll_back_due(), levels.innermost()), (None, Level::TRANSACTION));
    }

    #[test]
    fn a_release_that_is_refused_is_rolled_back_with_its_parent_or_alone() {
        for parent_ends in [false, true] {
            let mut levels = Levels::new();
            let [outer, inner] = set(&mut levels);
            levels.release(inner).expect("it is open");
            if parent_ends {
                levels.roll_back(outer);
                levels.roll_back_due().expect("it is due");
            }
            levels.not_released(inner);
            assert_eq!(levels.roll_back_due().is_some(), !parent_ends);
            assert_eq!(levels.is_open(outer), !parent_ends);
        }
    }

    #[test]
    fn a_conflict_is_forgiven_with_its_savepoint_and_with_those_around_it() {
        for rolled_back in 0..3 {
            let mut levels = Levels::new();
            let savepoints: [_; 3] = set(&mut levels);
            levels.note_conflict(savepoints[1]);
            assert!(levels.are_in_conflict());
            levels.roll_back(savepoints[rolled_back]);
            assert_eq!(levels.are_in_conflict(), rolled_back == 2, "due: {rolled_back}");
            levels.roll_back_due().expect("it is due");
            assert_eq!(levels.are_in_conflict(), rolled_back == 2, "rolled back: {rolled_back}");
        }
    }

    #[test]
    fn a_conflict_in_a_released_savepoint_is_one_of_its_parent() {
        for noted_before in [false, true] {
            let mut levels = Levels::new();
            let [outer, inner] = set(&mut levels);
            if noted_before {
                levels.note_conflict(inner);
            }
            levels.release(inner).expect("it is open");
            if !noted_before {
                levels.note_conflict(inner);
            }
            assert!(levels.are_in_conflict());
            levels.roll_back(outer);
            assert!(!levels.are_in_conflict());
        }
    }

    #[test]
    fn a_conflict_that_is_seen_after_the_rollback_of_its_savepoint_is_left_to_the_server() {
        let mut levels = Levels::new();
        let [savepoint] = set(&mut levels);
        levels.roll_back(savepoint);
        levels.roll_back_due().expect("it is due");
        levels.note_conflict(savepoint);
        assert_eq!((levels.are_in_conflict(), levels.have_unanswered()), (false, true));
    }

    #[test]
    fn an_unknown_answer_is_forgotten_with_its_savepoint() {
        let mut levels = Levels::new();
        let [savepoint] = set(&mut levels);
        levels.note_unanswered(savepoint);
        assert!(levels.have_unanswered());
        levels.roll_back(savepoint);
        assert!(!levels.have_unanswered());
    }

    #[test]
    fn the_transaction_itself_stays_open() {
        let mut levels = Levels::new();
        let [savepoint] = set(&mut levels);
        levels.not_set(savepoint);
        assert!(levels.is_open(Level::TRANSACTION));
        assert_eq!(levels.innermost(), Level::TRANSACTION);
        assert_eq!(levels.roll_back_due(), None);
    }
}
