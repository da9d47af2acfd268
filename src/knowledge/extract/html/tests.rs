//! Pages in, Markdown out: cases as data.

use super::*;

fn check(html: &str, expected: &str) {
    let (text, _) = read(html, &mut Vec::new()).unwrap();
    assert_eq!(text, expected, "{html}");
}

#[test]
fn what_a_reader_reads_is_kept_with_its_structure() {
    let cases = [
        ("<h1>A  b</h1><p>One<br>two <b>three</b>", "# A b\n\nOne\ntwo three"),
        ("<ul><li>a<li>b<ul><li>c</ul><li><p>d</p><p>e</p></ul>f", "- a\n- b\n  - c\n- d\n  e\n\nf"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<pre>\n a  b\n  c</pre>x", "```\n a  b\n  c\n```\n\nx"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("a&nbsp;b&thinsp;c&shy;d &lt;e&gt; &amp;amp;", "a b cd <e> &amp;"),
        ("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\n\nb\n\nc\n\nd"),
        ("<p>a<div>b</div>c", "a\n\nb\n\nc"),
        ("<h2>a<h3>b</h3>c", "## a\n\n### b\n\nc"),
        ("x<plaintext>a</p>\nb", "x\n\n```\na</p>\nb\n```"),
        ("<head><title>t</title><p>headless body", "headless body"),
        ("<ruby>漢<rt>kan</rt>字<rt>ji</ruby> was <del>4</del> 3", "漢字 was 3"),
    ];
    for (html, expected) in cases {
        check(html, expected);
    }
}

#[test]
fn tables_are_data_pairs_or_layout() {
    let cases = [
        (
            "<table><tr><th>A<th>B|C<tr><td>1<td>x<br>y<tr><td>2</table>",
            "| A | B\\|C |\n| --- | --- |\n| 1 | x y |\n| 2 |",
        ),
        ("<table><tr><th>Height<td>250 m<tr><th>Weight<td>31 kg</table>", "- Height: 250 m\n- Weight: 31 kg"),
        (
            "<table><tr><td colspan=2>A<td>B<tr><td rowspan=2>1<td>2<td>3<tr><td>4<td>5</table>",
            "| A | A | B |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 1 | 4 | 5 |",
        ),
        ("<table><tr><td>one cell</table>", "one cell"),
        ("<table role=presentation><tr><td>a<td>b</table>", "a\n\nb"),
        ("<table><tr><td><h2>x</h2><td><table><tr><td>1<td>2</table></table>", "## x\n\n| 1 | 2 |\n| --- | --- |"),
        (
            "<table><caption>Limits</caption><thead><tr><th>a<th>b</thead><tbody><tr><td>1<td>2</table>",
            "Limits\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<table><tr><td>1<div>2</div></td></div><td>3</table>", "| 1 2 | 3 |\n| --- | --- |"),
    ];
    for (html, expected) in cases {
        check(html, expected);
    }
}

#[test]
fn page_furniture_is_dropped() {
    let long = "Cookies are baked at two hundred degrees. ".repeat(60);
    let cases = [
        ("<nav>N</nav><p>x</p><footer>F</footer>", "x"),
        ("<div class=cookie>We value. Accept all.</div><p>x", "x"),
        ("<div id=siteFooter><a>Imprint</a> | <a>Terms</a></div><p>x", "x"),
        ("<div role=navigation>N</div><p hidden>h</p><p style='color:red; DISPLAY : none !important'>h</p><p>x", "x"),
        ("<script>if (a</div>) {}</script><style>p{}</style><noscript><p>n</noscript><template><p>t</template>x", "x"),
        ("<svg><title>icon</title><text>s</text><path/></svg><button>b</button><select><option>o</select>x", "x"),
        ("<ul><li><a href=/>Home</a><li><a href=/s>Shop</a></ul><p>A long paragraph.</p>", "A long paragraph."),
        ("<header><a>Logo</a></header><p>x</p><aside>ad</aside>", "x"),
        ("<article><header><h1>T</h1></header>text</article>", "# T\n\ntext"),
        ("<p>other other</p><main>The main text.</main>", "The main text."),
        ("<div class=nav-menu><a>a</a> <a>b</a></div><div class=menu>Soup 4, bread 1.</div>", "Soup 4, bread 1."),
        // Page furniture that was not closed does not take the page with it.
        ("<nav><a>Home</a> <div><p>Body text that goes on for a while.", "Body text that goes on for a while."),
        ("<h1>T</h1><p>Click <button>Buy<p>Body text.</p>", "# T\n\nClick\n\nBody text."),
        ("<p>All of the page.</p><footer>Imprint", "All of the page."),
        ("<table><tr><td>a<nav>N</nav><td>b<tr><td>1<td>2</table>", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        // A section's id is the anchor of its heading.
        ("<p>x</p><section id=consent><h2>Consent</h2><p>In writing.</p></section>", "x\n\n## Consent\n\nIn writing."),
        ("<p>x</p><section id=consent><p>Accept all.</p></section>", "x"),
        // Nothing but furniture: better that than nothing.
        ("<nav>only</nav>", "only"),
        ("<header>only</header>", "only"),
        ("<ul><li><a>index</a><li><a>of links</a></ul>", "- index\n- of links"),
    ];
    for (html, expected) in cases {
        check(html, expected);
    }
    check(&format!("<body class=cookie><div class=cookie-recipes><p>{long}</p></div>"), long.trim());
}

/// What is left out is told, whichever way it was recognized.
#[test]
fn what_is_left_out_is_counted() {
    for html in ["<nav>12345</nav><p>x", "<div class=cookie>12345</div><p>x", "<p>x</p><footer>12345</footer>"] {
        let mut notes = Vec::new();
        read(html, &mut notes).unwrap();
        assert_eq!(notes, ["5 characters of navigation and other page furniture left out"], "{html}");
    }
    let all = "<aside>note</aside><nav>toc</nav><div class=cookie>c</div><footer>f</footer>";
    assert_eq!(fragment(all).as_deref(), Ok("note\n\ntoc\n\nc\n\nf"));
}

#[test]
fn titles_come_from_the_head_then_the_first_heading() {
    let title = |html: &str| read(html, &mut Vec::new()).unwrap().1;
    assert_eq!(title("<title> A\n&amp; b</title><h1>c</h1>").as_deref(), Some("A & b"));
    assert_eq!(title("<h2>c <i>d</i></h2>x").as_deref(), Some("c d"));
    assert_eq!(title("<svg><title>icon</title></svg><title>T</title>x").as_deref(), Some("T"));
    assert_eq!(title("x").as_deref(), None);
}

#[test]
fn deep_nesting_is_read_or_refused() {
    let nested = |n: usize| format!("{}needle at depth{}", "<div>".repeat(n), "</div>".repeat(n));
    check(&nested(60_000), "needle at depth");
    assert_eq!(read(&nested(70_000), &mut Vec::new()).unwrap_err().code(), "too_deep");
    check(&format!("{}<tr><td>x", "<table><tr><td>".repeat(5_000)), "x");
}

/// The laws of hostile pages: no tag makes the text grow, and time stays linear (a quadratic walk over these
/// would take minutes).
#[test]
fn hostile_pages_stay_linear() {
    let formatting: String = (0..20_000).map(|i| format!("<font color={i}>")).collect();
    let cases = [
        format!("{formatting}{}", "<p>x".repeat(20_000)),
        format!("{}{}", "<span>".repeat(60_000), "<div>x</div>".repeat(60_000)),
        format!("<p>{}{}", "<div>".repeat(60_000), "</section></p></b>".repeat(60_000)),
        format!("<table><tr>{}{}", "<td rowspan=1000>x".repeat(5_000), "<tr><td>y".repeat(5_000)),
        format!("<table><tr>{}", "<td colspan=65535>some text".repeat(20_000)),
        "<table><tr><td>x".repeat(20_000),
        "<li>x<ul>".repeat(30_000),
        format!("<p class='{}'>x", "footer-".repeat(100_000)),
        "<!--".repeat(100_000),
        "&".repeat(300_000),
        "<".repeat(300_000),
        "<a b=".repeat(100_000),
        format!("<p {}>x", "a b=c ".repeat(200_000)),
        format!("</p {}>x", (0..200_000).map(|i| format!("a{i} ")).collect::<String>()),
        format!("<svg><title/></svg><p {}>x", (0..200_000).map(|i| format!("a{i} ")).collect::<String>()),
    ];
    let begun = std::time::Instant::now();
    for html in &cases {
        let start = html.get(..40).unwrap_or(html);
        if let Ok((text, _)) = read(html, &mut Vec::new()) {
            assert!(text.len() <= 12 * html.len() + 100, "{start}: {} -> {}", html.len(), text.len());
        }
    }
    assert!(begun.elapsed().as_secs() < 60, "took {:?}", begun.elapsed());
}
