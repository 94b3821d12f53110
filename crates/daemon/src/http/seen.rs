//! What a viewer may see. An answer is made of what [`Viewer::show`] has filtered, and of nothing else: it is a plain function of that, which
//! cannot hold on to the state of a room, and its result is a [`Seen`], which only the filter can make. What is for everybody says so: [`Public`].

use super::access::Viewer;

/// Something of which a viewer may see a part.
pub(crate) trait Private: Sized {
    /// That part.
    fn seen_by(self, viewer: Viewer) -> Self;
}

/// What is made of what a viewer may see.
#[derive(Debug)]
pub(crate) struct Seen<T>(T);

/// What is for everybody.
pub(crate) struct Public<T>(pub(crate) T);

/// What is for those who see everything; `None` for all others.
pub(crate) struct Confidential<T>(Option<T>);

impl Viewer {
    /// Makes something of what this viewer may see of `all`.
    pub(crate) fn show<T: Private, U>(self, all: T, make: fn(T) -> U) -> Seen<U> {
        Seen(make(all.seen_by(self)))
    }
}

impl<T> Seen<T> {
    /// For the answer itself.
    pub(in crate::http) fn open(self) -> T {
        self.0
    }

    /// For the tests of rooms.
    #[cfg(test)]
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T, E> Seen<Result<T, E>> {
    /// The refusal, or the rest.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn transpose(self) -> Result<Seen<T>, E> {
        self.0.map(Seen)
    }
}

impl<T> Confidential<T> {
    pub(crate) fn new(of: T) -> Self {
        Confidential(Some(of))
    }

    pub(crate) fn shown(self) -> Option<T> {
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
