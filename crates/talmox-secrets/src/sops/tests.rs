//! Properties of whole files.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use secrecy::ExposeSecret as _;

use super::parse::parse;
use super::print::print;
use super::tree::{Comment, Data, Entry, Mapping, Part, Scalar, Value};
use super::*;
use crate::SystemRandom;
use crate::age::Identity;

const NOW: &str = "2026-11-15T12:00:00Z";

fn identity() -> Identity {
    Identity::generate(&mut SystemRandom).unwrap()
}

fn encrypted(plain: &str, identity: &Identity) -> String {
    let rule = Rule::for_recipients(vec![identity.recipient().clone()]);
    encrypt(plain, &rule, NOW, &mut SystemRandom).unwrap()
}

fn opened(text: &str, identity: &Identity) -> Result<Decrypted, DecryptError> {
    SopsFile::parse(text).unwrap().decrypt(std::slice::from_ref(identity))
}

/// What `docs/how-to/secrets.md` says nobody notices, and what is noticed beside it.
#[test]
fn the_mac_covers_values_and_not_all_around_them() {
    let plain = "# first\ntoken: a\nempty: \"\"\nx_unencrypted: \"12\"\ny_unencrypted: \"3\"\nlast: b\n";
    let key = identity();
    let file = encrypted(plain, &key);
    let changed = |from: &str, to: &str| {
        assert!(file.contains(from), "{from}");
        opened(&file.replacen(from, to, 1), &key).map(|opened| opened.to_yaml().expose_secret().to_owned())
    };
    let comment = file.lines().find(|line| line.starts_with('#')).unwrap();
    let without = changed(&format!("{comment}\n"), "").unwrap();
    assert_eq!(without, plain.replace("# first\n", ""));
    assert!(changed(comment, "# ENC[forged]").unwrap().starts_with("# ENC[forged]\n"));
    assert!(changed("empty: \"\"\n", "").is_ok());
    assert!(changed("empty: \"\"\n", "empty: null\n").is_ok());
    assert!(changed("empty: \"\"\n", "empty: \"\"\nmore: null\n").is_ok());
    assert!(changed("x_unencrypted", "z_unencrypted").is_ok());
    // Where one plain value ends and the next begins is not in the checksum.
    let moved =
        changed("x_unencrypted: \"12\"\ny_unencrypted: \"3\"", "x_unencrypted: \"1\"\ny_unencrypted: \"23\"");
    assert!(moved.is_ok());
    assert!(changed("x_unencrypted: \"12\"", "x_unencrypted: \"13\"").is_err());
    assert!(
        changed("x_unencrypted: \"12\"\ny_unencrypted: \"3\"", "y_unencrypted: \"3\"\nx_unencrypted: \"12\"")
            .is_err()
    );
    assert!(changed("token: ", "other: ").is_err());
}

/// Types that hold secrets cannot be printed, so a failed test shows what it began with.
#[derive(Clone)]
struct Shown<T>(T);

impl<T> std::fmt::Debug for Shown<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

fn data() -> impl Strategy<Value = Shown<Data>> {
    let words =
        ["yes", "0755", "~", "", "1e3", "2026-01-01", "|", "# no", "- x", "a: b", "null", " x", "x ", "<<"];
    prop_oneof![
        Just(Shown(Data::Null)),
        any::<String>().prop_map(|text| Shown(Data::Text(text))),
        "[ -~\n]{0,20}".prop_map(|text| Shown(Data::Text(text))),
        prop::sample::select(words.to_vec()).prop_map(|text| Shown(Data::Text(text.to_owned()))),
        vec(any::<u8>(), 1..9)
            .prop_filter("bytes that are no text", |bytes| std::str::from_utf8(bytes).is_err())
            .prop_map(|bytes| Shown(Data::Bytes(bytes))),
        any::<i64>().prop_map(|number| Shown(Data::Integer(number))),
        any::<f64>().prop_map(|number| Shown(Data::Float(number))),
        any::<bool>().prop_map(|value| Shown(Data::Bool(value))),
        Just(Shown(Data::Time("2001-12-14T21:59:43.1-05:00".to_owned()))),
    ]
}

type Comments = Vec<Option<(String, bool)>>;

/// Comments before members, and one behind the last.
fn with_comments<T>(members: Vec<T>, comments: &Comments) -> Vec<Part<T>> {
    let comment = |at: usize, last: bool| {
        let (text, inline) = comments.get(at)?.clone()?;
        Some(Part::Comment(Comment { text, inline: inline && !last }))
    };
    let count = members.len();
    let mut parts = Vec::new();
    for (at, member) in members.into_iter().enumerate() {
        parts.extend(comment(at, false));
        parts.push(Part::Member(member));
    }
    if count > 0 {
        parts.extend(comment(count, true));
    }
    parts
}

fn comments() -> impl Strategy<Value = Comments> {
    vec(weighted(0.3, ("[ -~]{0,12}", any::<bool>())), 5)
}

fn value() -> impl Strategy<Value = Shown<Value>> {
    let leaf = data().prop_map(|data| Shown(Value::Scalar(Scalar::made(data.0))));
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (vec(inner.clone(), 0..4), comments()).prop_map(|(items, comments)| {
                let items = items.into_iter().map(|item| item.0).collect();
                Shown(Value::Sequence(with_comments(items, &comments)))
            }),
            mapping_of(inner.boxed()).prop_map(|mapping| Shown(Value::Mapping(mapping.0))),
        ]
    })
}

fn mapping_of(values: BoxedStrategy<Shown<Value>>) -> impl Strategy<Value = Shown<Mapping>> {
    let key = prop_oneof![
        "[a-z]{1,6}",
        "[a-z]{1,4}_unencrypted",
        "secret_[a-z]{1,4}",
        any::<String>(),
        "[0-9.~]{1,3}"
    ];
    (prop::collection::btree_map(key, values, 0..4), comments()).prop_map(|(members, comments)| {
        let entries = members.into_iter().filter(|(key, _)| key != "sops" && key.len() < 200);
        let entries = entries.map(|(key, value)| Entry { key, value: value.0 }).collect();
        Shown(with_comments(entries, &comments))
    })
}

fn selection() -> impl Strategy<Value = Selection> {
    prop::sample::select(vec![
        ("unencrypted_suffix", "_unencrypted"),
        ("encrypted_suffix", "_unencrypted"),
        ("unencrypted_regex", "^s"),
        ("encrypted_regex", "^[a-m]"),
        ("unencrypted_comment_regex", "^[a-m ]"),
        ("encrypted_comment_regex", "[aeiou]"),
    ])
    .prop_map(|(name, text)| Selection::of(name, text).unwrap().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_was_encrypted_is_decrypted(
        documents in vec(mapping_of(value().boxed()), 1..3),
        selection in selection(),
        mac_only_encrypted in any::<bool>(),
    ) {
        let documents: Vec<Mapping> = documents.into_iter().map(|document| document.0).collect();
        let plain = print(&documents);
        let Ok(before) = parse(&plain) else { panic!("{plain}") };
        let identity = identity();
        let rule = Rule { recipients: vec![identity.recipient().clone()], selection, mac_only_encrypted };
        let file = match encrypt(&plain, &rule, NOW, &mut SystemRandom) {
            Ok(file) => file,
            // Patterns may by chance match what was encrypted.
            Err(EncryptError::CommentPattern) => return Ok(()),
            Err(error) => panic!("{error}\n{plain}"),
        };
        let decrypted = match opened(&file, &identity) {
            Ok(decrypted) => decrypted,
            Err(error) => panic!("{error}\n{plain}\n{file}"),
        };
        prop_assert!(
            same(decrypted.documents(), &before), "{plain}\n{}", decrypted.to_yaml().expose_secret());
        let again = parse(decrypted.to_yaml().expose_secret());
        prop_assert!(again.is_ok_and(|again| same(&again, &before)), "{plain}\n{}", decrypted.to_yaml().expose_secret());
    }

    #[test]
    fn values_are_printed_as_what_they_are(documents in vec(mapping_of(value().boxed()), 1..3)) {
        let documents: Vec<Mapping> = documents.into_iter().map(|document| document.0).collect();
        let text = print(&documents);
        let Ok(read) = parse(&text) else { panic!("{text}") };
        prop_assert!(values(&read) == values(&documents), "{text}");
    }

    #[test]
    fn files_that_were_cut_and_stirred_are_opened_without_panic(
        cuts in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (identity, file) = stirred();
        let mut bytes = file.clone().into_bytes();
        for (from, to, byte) in cuts {
            let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
            match byte % 3 {
                0 => bytes[from] = byte,
                1 => bytes.swap(from, to),
                _ => drop(bytes.drain(from.min(to)..from.max(to).min(from.min(to) + 40))),
            }
        }
        if let Ok(file) = SopsFile::parse(&String::from_utf8_lossy(&bytes)) {
            let _ = file.decrypt(std::slice::from_ref(identity));
        }
    }

    #[test]
    fn pieces_of_yaml_are_read_without_panic(pieces in vec(prop::sample::select(PIECES.to_vec()), 0..24)) {
        let text = pieces.concat();
        let Ok(documents) = parse(&text) else { return Ok(()) };
        let printed = print(&documents);
        let again = parse(&printed);
        prop_assert!(again.is_ok_and(|again| values(&again) == values(&documents)), "{text}\n----\n{printed}");
    }

    #[test]
    fn any_text_is_read_without_panic(text in "(?s).{0,200}") {
        let _ = SopsFile::parse(&text);
    }
}

const PIECES: [&str; 34] = [
    "---\n", "...\n", "a: ", "b: ", "c:\n", "sops:\n", "- ", "-\n", "# c\n", " # d\n", "#\n", "\n", "\r\n",
    "  ", " ", "{", "}", "[", "]", ", ", "&x ", "*x ", "|\n", ">-\n", "\"q\"", "'q'", "x", "12", "~",
    "!!str ", "!own ", "? ", "<<: ", "ö",
];

/// A file that is made once.
fn stirred() -> &'static (Identity, String) {
    static FILE: std::sync::OnceLock<(Identity, String)> = std::sync::OnceLock::new();
    FILE.get_or_init(|| {
        let identity = identity();
        let file = encrypted(PLAIN, &identity);
        (identity, file)
    })
}

/// The same values, and the same comments between them at the same keys. Which of several lists inside each other a
/// comment stands in is no part of its place: SOPS does not count them.
fn same(left: &[Mapping], right: &[Mapping]) -> bool {
    values(left) == values(right) && line_by_line(left) == line_by_line(right)
}

fn line_by_line(documents: &[Mapping]) -> Vec<String> {
    fn mapping(keys: &str, members: &Mapping, out: &mut Vec<String>) {
        for part in members {
            match part {
                Part::Comment(comment) => out.push(format!("{keys} #{}", comment.text)),
                Part::Member(entry) => value(&format!("{keys}:{}", entry.key), &entry.value, out),
            }
        }
    }
    fn value(keys: &str, of: &Value, out: &mut Vec<String>) {
        match of {
            Value::Scalar(scalar) => out.push(format!("{keys} {:?}", scalar.data.bytes())),
            Value::Mapping(members) => mapping(keys, members, out),
            Value::Sequence(members) => members.iter().for_each(|part| match part {
                Part::Comment(comment) => out.push(format!("{keys} #{}", comment.text)),
                Part::Member(of) => value(keys, of, out),
            }),
        }
    }
    let mut out = Vec::new();
    for document in documents {
        mapping("", document, &mut out);
    }
    out
}

/// Everything but comments.
fn values(documents: &[Mapping]) -> Vec<Mapping> {
    fn mapping(members: &Mapping) -> Mapping {
        let member = |part: &Part<Entry>| match part {
            Part::Comment(_) => None,
            Part::Member(entry) => {
                Some(Part::Member(Entry { key: entry.key.clone(), value: value(&entry.value) }))
            }
        };
        members.iter().filter_map(member).collect()
    }
    fn value(of: &Value) -> Value {
        let member = |part: &Part<Value>| match part {
            Part::Comment(_) => None,
            Part::Member(of) => Some(Part::Member(value(of))),
        };
        match of {
            Value::Scalar(scalar) => Value::Scalar(scalar.clone()),
            Value::Sequence(items) => Value::Sequence(items.iter().filter_map(member).collect()),
            Value::Mapping(members) => Value::Mapping(mapping(members)),
        }
    }
    documents.iter().map(mapping).collect()
}

const PLAIN: &str = "# who: ours\nproxmox:\n    token: root@pam!t=5ecret-value # beside: it\n    port: 8006\nlist:\n    - one, 1\n    # two: both\n    - 2\n";

#[test]
fn nothing_readable_is_left_of_values_and_comments() {
    let file = encrypted(PLAIN, &identity());
    // Each holds a character that base64 lacks, so that encrypted bytes cannot spell it by chance.
    for secret in ["5ecret-value", "who:", "beside:", "two:", "one,"] {
        let body = file.split("sops:").next().unwrap();
        assert!(!body.contains(secret), "{secret} in\n{body}");
    }
}

#[test]
fn values_are_found_by_their_keys() {
    let identity = identity();
    let file = encrypted("a.b: dotted\na: {b: nested, l: [x, {y: 3}]}\nn: null\n", &identity);
    let decrypted = opened(&file, &identity).unwrap();
    let value = |key: &str| decrypted.value(key).map(|secret| secret.expose_secret().to_owned());
    assert_eq!(value("a.b").as_deref(), Some("dotted"));
    assert_eq!(value("a.l.0").as_deref(), Some("x"));
    assert_eq!(value("a.l.1.y").as_deref(), Some("3"));
    assert_eq!((value("a"), value("n"), value("a.c"), value("a.l.9")), (None, None, None, None));
}

#[test]
fn any_changed_byte_is_noticed() {
    let identity = identity();
    let file = encrypted(PLAIN, &identity);
    let mut tried = 0;
    for (at, byte) in file.bytes().enumerate() {
        let line_start = file[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = file[line_start..].lines().next().unwrap();
        // Comments are no part of the MAC; types are not authenticated by the format where the bytes stay the same.
        let comment = file[line_start..at].contains('#');
        let kind = line.find(",type:").is_some_and(|kind| at >= line_start + kind);
        let value = line.contains("ENC[") && at >= line_start + line.find("ENC[").unwrap();
        if comment || kind || !value || !byte.is_ascii_alphanumeric() {
            continue;
        }
        let mut wrong = file.clone().into_bytes();
        wrong[at] = if byte == b'A' { b'B' } else { b'A' };
        let wrong = String::from_utf8(wrong).unwrap();
        assert!(opened(&wrong, &identity).is_err(), "byte {at} of {line}");
        tried += 1;
    }
    assert!(tried > 300, "{tried} bytes");
}

#[test]
fn moved_added_and_removed_values_are_noticed_and_named() {
    let identity = identity();
    let file = encrypted("a: one\nb: two\nl: [x, y]\nc_unencrypted: open\n", &identity);
    let lines: Vec<&str> = file.lines().collect();
    let at = |key: &str| lines.iter().position(|line| line.starts_with(key)).unwrap();
    let value = |key: &str| lines[at(key)].split_once(": ").unwrap().1;

    let swapped = file.replace(&format!("a: {}", value("a")), &format!("a: {}", value("b")));
    assert_eq!(opened(&swapped, &identity).unwrap_err(), DecryptError::Value { place: "a".to_owned() });

    let removed: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with("b:")).collect();
    assert_eq!(opened(&(removed.join("\n") + "\n"), &identity).unwrap_err(), DecryptError::Mac);

    let mut turned = lines.clone();
    turned.swap(at("l:") + 1, at("l:") + 2);
    assert_eq!(opened(&(turned.join("\n") + "\n"), &identity).unwrap_err(), DecryptError::Mac);

    let open = file.replace("c_unencrypted: open", "c_unencrypted: other");
    assert_eq!(opened(&open, &identity).unwrap_err(), DecryptError::Mac);

    let plain = file.replace(value("a"), "five");
    assert!(
        opened(&plain, &identity).unwrap_err().to_string().starts_with("a is not encrypted")
            || opened(&plain, &identity).unwrap_err().to_string().starts_with("a: is not encrypted")
    );

    let time = file.replace(NOW, "2026-11-15T12:00:01Z");
    assert_eq!(opened(&time, &identity).unwrap_err(), DecryptError::MacValue);
}

#[test]
fn a_wrong_key_is_told_with_the_right_ones_name() {
    let (ours, theirs) = (identity(), identity());
    let error = opened(&encrypted(PLAIN, &ours), &theirs).unwrap_err();
    assert_eq!(error, DecryptError::NoKeyFits { recipients: vec![ours.recipient().to_string()] });
}

#[test]
fn no_error_and_no_debug_repeats_a_value() {
    let identity = identity();
    let file = encrypted(PLAIN, &identity);
    let decrypted = opened(&file, &identity).unwrap();
    let mut told = format!("{decrypted:?} {:?} {:?}", SopsFile::parse(&file).unwrap(), decrypted.to_yaml());
    for wrong in [
        "a: [5ecret-value\n",
        "5ecret-value",
        "- 5ecret-value\n",
        "a: !own 5ecret-value\n",
        "a: 1\n\t5ecret-value\n",
    ] {
        if let Err(error) =
            encrypt(wrong, &Rule::for_recipients(vec![identity.recipient().clone()]), NOW, &mut SystemRandom)
        {
            told.push_str(&format!("{error} {error:?}"));
        }
    }
    let by_hand = file.replacen("ENC[", "5ecret-value[", 3);
    told.push_str(&format!("{:?}", opened(&by_hand, &identity).map(|_| ()).unwrap_err()));
    assert!(!told.contains("5ecret-value"), "{told}");
}

#[test]
fn text_that_looks_like_an_alias_is_not_repeated() {
    let rule = Rule::for_recipients(vec![identity().recipient().clone()]);
    let error = encrypt("password: *hunter2\n", &rule, NOW, &mut SystemRandom).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn comments_of_many_lines_stay_comments() {
    let comment = Comment { text: "one\ntwo: 2".to_owned(), inline: true };
    let entry = Entry { key: "a".to_owned(), value: Value::Scalar(Scalar::text("x")) };
    assert_eq!(print(&[vec![Part::Comment(comment), Part::Member(entry)]]), "#one\n#two: 2\na: x\n");
}

#[test]
fn an_update_changes_what_changed() {
    let identity = identity();
    let file = encrypted(PLAIN, &identity);
    let decrypted = opened(&file, &identity).unwrap();
    let plain = decrypted.to_yaml().expose_secret().replace("8006", "8007");
    let updated = decrypted.update(&plain, "2026-11-16T12:00:00Z", &mut SystemRandom).unwrap();
    let changed: Vec<&str> =
        updated.lines().filter(|line| !file.lines().any(|old| old == *line)).map(str::trim).collect();
    assert_eq!(changed.len(), 3, "{changed:?}");
    let again = opened(&updated, &identity).unwrap();
    assert_eq!(again.value("proxmox.port").unwrap().expose_secret(), "8007");
}

#[test]
fn files_for_others_too_are_read_and_not_written() {
    let identity = identity();
    let file = encrypted(PLAIN, &identity);
    let pgp = "sops:\n    pgp:\n        - fp: ABC\n          enc: x\n          created_at: \"2026-01-01T00:00:00Z\"\n";
    let both = file.replace("sops:\n", pgp);
    let decrypted = opened(&both, &identity).unwrap();
    let error = decrypted.update(PLAIN, NOW, &mut SystemRandom).unwrap_err();
    assert_eq!(error, EncryptError::OtherRecipients { kinds: vec!["pgp".to_owned()] });
    let none: String =
        file.lines().filter(|line| !line.contains("recipient:")).map(|line| format!("{line}\n")).collect();
    assert!(SopsFile::parse(&none).is_err(), "no recipient is left");
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let rule = Rule::for_recipients(vec![identity().recipient().clone()]);
    for (plain, said) in [
        ("- a\n", "mappings"),
        ("a: 1\na: 2\n", "twice"),
        ("1: a\n", "quotes"),
        ("a: 18446744073709551615\n", "large"),
        ("a: !own x\n", "tag"),
        ("a: 1\nsops: {}\n", "already"),
    ] {
        let error = encrypt(plain, &rule, NOW, &mut SystemRandom).unwrap_err().to_string();
        assert!(error.contains(said), "{plain}: {error}");
    }
    assert!(encrypt("a: 1\n", &Rule::for_recipients(Vec::new()), NOW, &mut SystemRandom).is_err());
    assert!(matches!(encrypt("a: 1\n", &rule, "yesterday", &mut SystemRandom), Err(EncryptError::Time(_))));
}

#[test]
fn comments_beside_nothing_stay_apart() {
    let text = "a:\n# of b\nb: # beside b\n# of c\nc: 1\n";
    // The parser calls nothing `~`.
    let expected = "a: ~\n# of b\nb: ~ # beside b\n# of c\nc: 1\n";
    assert_eq!(print(&parse(text).unwrap()), expected);
}

#[test]
fn a_comment_behind_brackets_is_counted_to_what_was_in_them() {
    let text = "a:\n  b: [1, {c: 2}]\n  # behind\nd: 1\n";
    let expected = "a:\n    b:\n        - 1\n        - c: 2\n          # behind\nd: 1\n";
    assert_eq!(print(&parse(text).unwrap()), expected);
}

#[test]
fn comments_stand_where_sops_has_them() {
    let text = "# head\n\na: 1 # inline\nb: # of b\n  # head c\n  c: two\n  # foot\nlist: # of list\n- x\n# head y\n- y: 1\n  # in item\n# head e\ne: |\n  # text\nf: [1] # flow\n# tail\n";
    let printed = print(&parse(text).unwrap());
    let expected = "# head\na: 1 # inline\n# of b\nb:\n    # head c\n    c: two\n    # foot\n# of list\nlist:\n    - x\n    # head y\n    - \"y\": 1\n      # in item\n# head e\ne: |\n    # text\nf:\n    # flow\n    - 1\n# tail\n";
    assert_eq!(printed, expected);
}
