//! The links between the documents of the repository: every relative one must lead to a file, and to a heading in it.

use crate::workspace::{Checked, Workspace};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

/// Checks every Markdown file of the checkout.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the documents are listed by git".into()));
    };
    let mut documents = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        documents.insert(file.clone(), workspace.text(file).unwrap_or_default());
    }
    let faults = faults(&documents, &files);
    Ok(Checked::from_faults(faults, format!("the links of {} documents lead somewhere", documents.len())))
}

fn faults(documents: &BTreeMap<PathBuf, String>, files: &[PathBuf]) -> Vec<String> {
    // A link to a folder is as good as one to a file in it.
    let mut known: BTreeSet<PathBuf> = files.iter().cloned().collect();
    known.extend(files.iter().flat_map(|file| file.ancestors().skip(1).map(Path::to_path_buf)));
    let mut faults = Vec::new();
    for (document, text) in documents {
        for (line, target) in links(text) {
            if let Some(why) = fault(document, &target, documents, &known) {
                faults.push(format!("{}:{line}: {target}: {why}", document.display()));
            }
        }
    }
    faults
}

fn fault(
    document: &Path,
    target: &str,
    documents: &BTreeMap<PathBuf, String>,
    known: &BTreeSet<PathBuf>,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() {
        document.to_path_buf()
    } else {
        match joined(document.parent().unwrap_or(Path::new("")), path) {
            Some(file) => file,
            None => return Some("leads out of the repository".into()),
        }
    };
    if !known.contains(&file) {
        return Some("no such file in the repository".into());
    }
    let anchor = anchor?;
    let text = documents.get(&file)?;
    if anchors(text).contains(anchor) { None } else { Some(format!("{} has no such heading", file.display())) }
}

/// The path from the root of the repository, or `None` if it leaves that.
fn joined(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut result = folder.to_path_buf();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !result.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(result)
}

/// The lines of prose with their numbers: no code blocks, and no code within a line.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                // What stands between backticks is every second piece.
                let pieces = line.split('`').enumerate();
                let said: Vec<&str> = pieces.filter(|(at, _)| at % 2 == 0).map(|(_, piece)| piece).collect();
                lines.push((number + 1, said.join("`")));
            }
        }
    }
    lines
}

/// The targets of inline links, images and reference definitions, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for piece in line.split("](").skip(1) {
            found.push((number, piece.split([')', ' ']).next().unwrap_or_default().to_owned()));
        }
        let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition.filter(|(label, _)| !label.contains(']')) {
            found.push((number, target.split_whitespace().next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The names by which a page's headings can be linked to, as GitHub forms them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let count = seen.entry(name.clone()).or_default();
        names.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(text: &str) -> Vec<String> {
        let documents = BTreeMap::from([
            (PathBuf::from("docs/a.md"), text.to_owned()),
            (PathBuf::from("docs/b.md"), "# One Thing: `x`\n## Two\n## Two\n".to_owned()),
        ]);
        faults(&documents, &["docs/a.md", "docs/b.md", "src/main.rs"].map(PathBuf::from))
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "# Here\n[b](b.md) [two](b.md#two-1) ![x](../src/main.rs \"title\") [](#here) [up](..)\n\
                    [one](./b.md#one-thing-x) [w](https://example.org/none.md)\n[r]: b.md\n";
        assert_eq!(faults_of(text), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let text = "\n[a](c.md) [b](b.md#three)\n[r]: d.md\n[o](../../x) [abs](/etc/hosts)\n";
        let found = faults_of(text);
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(found[0], "docs/a.md:2: c.md: no such file in the repository");
        assert_eq!(found[1], "docs/a.md:2: b.md#three: docs/b.md has no such heading");
        assert!(found[3].ends_with("leads out of the repository"), "{found:?}");
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(faults_of("`[a](c.md)`\n```sh\n[a](c.md)\n```\n").len(), 0);
        assert_eq!(faults_of("`x` [a](c.md)\n").len(), 1);
    }
}
