/// A text within a line or a cell of Markdown, as it is; what stands between backticks is code.
pub(super) fn text(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let pieces: Vec<_> = line.split('`').collect();
    // A backtick without another is just that.
    if pieces.len().is_multiple_of(2) {
        return plain(&line);
    }
    let pieces = pieces.iter().enumerate().map(|(index, piece)| {
        // Even in code, a bar would end the cell.
        if index.is_multiple_of(2) { plain(piece) } else { format!("`{}`", piece.replace('|', r"\|")) }
    });
    pieces.collect()
}

fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '~' | '|' | '#' | '&') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn what_markdown_would_take_for_its_own_is_escaped() {
        assert_eq!(text("a|b"), r"a\|b");
        assert_eq!(text("map<string, string>"), r"map\<string, string\>");
        assert_eq!(text("~1 ms *or* ~2 ms"), r"\~1 ms \*or\* \~2 ms");
        assert_eq!(text("[a](b) snake_case \\ #5 &amp;"), r"\[a\](b) snake\_case \\ \#5 \&amp;");
    }

    #[test]
    fn a_text_is_one_line() {
        assert_eq!(text(" one\ntwo\r\n\nthree "), "one two three");
    }

    #[test]
    fn code_stays_code() {
        assert_eq!(text("`Vec<u8>` of *all*"), r"`Vec<u8>` of \*all\*");
        assert_eq!(text("`a|b`"), r"`a\|b`");
    }

    #[test]
    fn a_backtick_alone_is_no_code() {
        assert_eq!(text("a ` b*"), r"a \` b\*");
    }

    #[test]
    fn figures_stay_as_they_are() {
        assert_eq!(text("1.23 (1.10–1.40) × 3.5 µs, ≥ 0.9, -1"), "1.23 (1.10–1.40) × 3.5 µs, ≥ 0.9, -1");
    }
}
