//! Who asks, and what he may see. An answer is made of what [`Viewer::show`] has filtered, and of nothing else: it is a plain function of that, which
//! cannot hold on to the state of a room, and its result is a [`Seen`], which only the filter can make. What is for everybody says so: [`Public`].

use surefoot_model::Finding;

/// One who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewer {
    /// The user; `None` where the kernel does not say.
    pub uid: Option<u32>,
    /// Whether everything is shown.
    pub sees_all: bool,
    /// Stands for the name of one of another machine.
    pub named: Option<u64>,
}

impl Viewer {
    /// One who may see everything.
    #[cfg(test)]
    pub const ALL: Viewer = Viewer { uid: None, sees_all: true, named: None };

    /// Whether what rests on this user's files may be shown; `None` is the host's own.
    pub fn may_see(&self, uid: Option<u32>) -> bool {
        self.sees_all || uid.is_none_or(|uid| self.uid == Some(uid))
    }

    /// The findings that may be shown, in the words that may be: a user's own jobs keep their names.
    pub fn seen(&self, mut findings: Vec<Finding>) -> Vec<Finding> {
        findings.retain(|finding| self.may_see(finding.uid));
        let is_own = |finding: &Finding| self.sees_all || (finding.uid.is_some() && finding.uid == self.uid);
        findings.into_iter().map(|one| if is_own(&one) { one } else { one.for_everybody() }).collect()
    }
}

/// Something of which a viewer may see a part.
pub trait Private: Sized {
    /// That part.
    fn seen_by(self, viewer: Viewer) -> Self;
}

/// What is made of what a viewer may see.
#[derive(Debug)]
pub struct Seen<T>(T);

/// What is for everybody.
pub struct Public<T>(pub T);

/// What is for those who see everything; `None` for all others.
pub struct Confidential<T>(Option<T>);

impl Viewer {
    /// Makes something of what this viewer may see of `all`.
    pub fn show<T: Private, U>(self, all: T, make: fn(T) -> U) -> Seen<U> {
        Seen(make(all.seen_by(self)))
    }
}

impl<T> Seen<T> {
    /// For the answer itself: the server alone calls it, and `cargo xtask layers` sees to that.
    pub fn into_answer(self) -> T {
        self.0
    }
}

impl<T, E> Seen<Result<T, E>> {
    /// The refusal, or the rest.
    ///
    /// # Errors
    /// The refusal.
    pub fn transpose(self) -> Result<Seen<T>, E> {
        self.0.map(Seen)
    }
}

impl<T> Confidential<T> {
    /// Hides it from all others.
    pub fn new(of: T) -> Self {
        Confidential(Some(of))
    }

    /// It, where this viewer sees everything.
    pub fn shown(self) -> Option<T> {
        self.0
    }
}

impl<T> Private for Public<T> {
    fn seen_by(self, _: Viewer) -> Self {
        self
    }
}

impl<T> Private for Confidential<T> {
    fn seen_by(self, viewer: Viewer) -> Self {
        Confidential(self.0.filter(|_| viewer.sees_all))
    }
}

/// Already filtered.
impl<T> Private for Seen<T> {
    fn seen_by(self, _: Viewer) -> Self {
        self
    }
}

impl<A: Private, B: Private> Private for (A, B) {
    fn seen_by(self, viewer: Viewer) -> Self {
        (self.0.seen_by(viewer), self.1.seen_by(viewer))
    }
}

impl<A: Private, B: Private, C: Private> Private for (A, B, C) {
    fn seen_by(self, viewer: Viewer) -> Self {
        (self.0.seen_by(viewer), self.1.seen_by(viewer), self.2.seen_by(viewer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_sees_the_names_of_their_own_jobs_and_of_nobody_else_s() {
        use surefoot_model::{Room, Severity, Subject, SubjectKind};
        let of = |uid: Option<u32>| {
            let said = |name: &str| {
                let subject = Subject::new(SubjectKind::Job, name);
                Finding::new(Room::Checkpoint, "durable", subject, Severity::Notice, format!("Job {name} waits."))
            };
            said("train").with_public(&said("job-1")).of_user(uid)
        };
        let seen = |viewer: Viewer| {
            let all = viewer.seen(vec![of(None), of(Some(1000)), of(Some(1001))]);
            all.into_iter().map(|finding| (finding.uid, finding.subject.name, finding.key)).collect::<Vec<_>>()
        };
        let (named, bare) = (
            ("train".to_owned(), "checkpoint/durable/job/train".to_owned()),
            ("job-1".to_owned(), "checkpoint/durable/job/job-1".to_owned()),
        );
        let one = |uid, of: &(String, String)| (uid, of.0.clone(), of.1.clone());
        assert_eq!(seen(Viewer::ALL), [one(None, &named), one(Some(1000), &named), one(Some(1001), &named)]);
        assert_eq!(
            seen(Viewer { uid: Some(1000), sees_all: false, named: None }),
            [one(None, &bare), one(Some(1000), &named)]
        );
        assert_eq!(seen(Viewer { uid: None, sees_all: false, named: None }), [one(None, &bare)]);
    }
}
