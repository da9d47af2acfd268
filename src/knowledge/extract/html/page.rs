//! The blocks of a page, and which of them are its content.

/// A paragraph, heading, list item, table or preformatted text, already in Markdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub text: String,
    pub form: Form,
    pub place: Place,
    /// Characters of `text`, and how many of them are in links.
    pub chars: usize,
    pub link_chars: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    Paragraph,
    Heading,
    Item,
    Pre,
    Table,
}

/// Where in the page a block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a menu, footer or banner.
    Furniture,
    /// In a page's header or aside.
    Doubtful,
    #[default]
    Page,
    Article,
    Main,
}

pub(super) struct Chosen {
    pub text: String,
    pub first_heading: Option<String>,
    /// Characters of the blocks that were left out.
    pub dropped: usize,
}

/// `main` (else the articles) is the content where it holds at least this share of the text (1 of 4).
const MAIN_SHARE: usize = 4;
/// A block is a link list if this share of it is links, in tenths.
const LINK_TENTHS: usize = 9;

/// The page's content: the text of `main` or of the articles where they hold a good part of it, else all but the
/// doubtful blocks and the furniture; without the link lists around it. A page that is nothing else is kept whole.
pub(super) fn choose(blocks: Vec<Block>) -> Chosen {
    let total: usize = blocks.iter().map(|b| b.chars).sum();
    let kept = |keep: &dyn Fn(&Block) -> bool| blocks.iter().filter(|b| keep(b)).map(|b| b.chars).sum::<usize>();
    let page = kept(&|b| b.place > Place::Doubtful);
    let place = [Place::Main, Place::Article, Place::Page, Place::Doubtful]
        .into_iter()
        .find(|place| {
            let inside = kept(&|b| b.place >= *place);
            inside > 0 && inside * MAIN_SHARE >= page
        })
        .unwrap_or(Place::Furniture);
    let is_link_list = |b: &Block| {
        b.place < Place::Article
            && matches!(b.form, Form::Paragraph | Form::Item)
            && b.link_chars > 0
            && b.link_chars * 10 >= b.chars * LINK_TENTHS
    };
    let content = kept(&|b| b.place >= place && !is_link_list(b));
    let lists_too = content * MAIN_SHARE < kept(&|b| b.place >= place);
    let chosen: Vec<Block> =
        blocks.into_iter().filter(|b| b.place >= place && (lists_too || !is_link_list(b))).collect();
    let chars: usize = chosen.iter().map(|b| b.chars).sum();
    let first_heading = chosen
        .iter()
        .find(|b| b.form == Form::Heading)
        .map(|b| b.text.trim_start_matches('#').trim().to_owned())
        .filter(|heading| !heading.is_empty());
    Chosen { text: all(&chosen), first_heading, dropped: total - chars }
}

/// The blocks joined: a blank line between them, none between list items.
pub(super) fn all(blocks: &[Block]) -> String {
    let mut out = String::with_capacity(blocks.iter().map(|b| b.text.len() + 2).sum());
    let mut before: Option<Form> = None;
    for block in blocks {
        match before {
            None => {}
            Some(Form::Item) if block.form == Form::Item => out.push('\n'),
            Some(_) => out.push_str("\n\n"),
        }
        out.push_str(&block.text);
        before = Some(block.form);
    }
    out
}
