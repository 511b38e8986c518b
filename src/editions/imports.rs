//! Public imports.

use std::collections::{HashMap, HashSet};

use super::descriptor::File;

/// Turns the imports that a file gets through public imports of other files into imports of its own. prost-reflect follows only the
/// first of several public imports in a row, and loops forever if they form a cycle.
pub(super) fn flatten(files: &mut [File]) {
    let public: HashMap<_, _> = files.iter().map(|file| (file.name().to_owned(), public_imports(file))).collect();
    for file in files {
        let mut known: HashSet<_> = file.dependency.iter().cloned().collect();
        let mut next = 0;
        // The imports grow during the loop.
        while let Some(import) = file.dependency.get(next) {
            let further = public.get(import).into_iter().flatten().filter(|import| known.insert((*import).clone()));
            file.dependency.extend(further.cloned().collect::<Vec<_>>());
            next += 1;
        }
        file.public_dependency.clear();
    }
}

fn public_imports(file: &File) -> Vec<String> {
    let imports = file.public_dependency.iter().filter_map(|index| file.dependency.get(usize::try_from(*index).ok()?));
    imports.cloned().collect()
}
