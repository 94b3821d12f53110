//! The name that somebody meant who wrote one that there is not.

/// Letters that may be wrong, missing or too many: of a short name fewer.
const WRONG_MAX: usize = 3;

/// Longer texts are nobody's slip, and are not compared.
const TEXT_BYTES_MAX: usize = 128;

/// The word that `text` is likely to be a slip of: at most three letters are wrong, and fewer than half of them.
///
/// ```
/// assert_eq!(surefoot_model::nearest("durabel", ["policy", "durable"]), Some("durable"));
/// assert_eq!(surefoot_model::nearest("colour", ["policy", "durable"]), None);
/// ```
pub fn nearest<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let slips = words.into_iter().filter_map(|word| Some((slips(text, word)?, word)));
    slips.filter(|(wrong, _)| wrong * 2 < text.chars().count()).min().map(|(_, word)| word)
}

/// The same in words to end an error with: "; did you mean 'eth0'?", or nothing.
pub fn did_you_mean<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    nearest(text, words).map_or_else(String::new, |word| format!("; did you mean '{}'?", crate::one_line(word)))
}

/// How many letters have to be changed, added or taken away to make one text of the other (Levenshtein's distance), whatever their
/// case; `None` where they are too many for a slip.
pub fn slips(one: &str, other: &str) -> Option<usize> {
    if one.len().max(other.len()) > TEXT_BYTES_MAX {
        return None;
    }
    let wrong = strsim::levenshtein(&one.to_lowercase(), &other.to_lowercase());
    (wrong <= WRONG_MAX).then_some(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_that_with_the_fewest_slips_and_what_is_no_slip_has_none() {
        let words = ["eth0", "eth10", "enp3s0f1", "lo"];
        for (text, meant) in [
            ("eth1", Some("eth0")),
            ("ETH10", Some("eth10")),
            ("enp3s0f", Some("enp3s0f1")),
            ("wlan0", None),
            ("l", None),
            ("", None),
        ] {
            assert_eq!(nearest(text, words), meant, "{text}");
        }
        assert_eq!(nearest(&"e".repeat(100_000), words), None);
        assert_eq!(slips("flaw", "lawn"), Some(2));
        assert_eq!(did_you_mean("eth1", words), "; did you mean 'eth0'?");
        assert_eq!(did_you_mean("xyz", words), "");
    }
}
