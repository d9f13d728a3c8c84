import { REFUSED_WORDINGS } from './words.ts';

/** The most words of a sentence. The style page of CONTRIBUTING asks for about 25. */
export const SENTENCE_WORDS_MAX = 35;

/** The blank behind a sentence, which may end within quotes, brackets or emphasis. */
const SENTENCE_END = /(?<=[.!?]["')\]*_]*)(?<!\b(?:e\.g|i\.e|vs|cf)\.)(\s+)(?=\S)/;
/** The blank behind a sentence or an entry of a list in a cell of a table. */
const ENTRY_END = new RegExp(`${SENTENCE_END.source}|(?<=;)(\\s+)`);

/** The part of a node of textlint's tree that the rules here use. `range` is in characters of the whole text. */
interface TxtNode {
  readonly type: string;
  readonly range: readonly [start: number, end: number];
  readonly children?: readonly TxtNode[];
}

/** The part of textlint's rule context that the rules here use. */
interface Context {
  readonly Syntax: Readonly<Record<string, string>>;
  readonly getSource: (node: TxtNode) => string;
  readonly report: (node: TxtNode, error: unknown) => void;
  readonly RuleError: new (message: string, at: { readonly index: number }) => unknown;
}

type Visitors = Record<string, (node: TxtNode) => void>;

/** Refuses the wordings of the style page. */
export function refusedWordings({ report, RuleError, getSource }: Context): Visitors {
  const visit = (node: TxtNode): void => {
    const text = withoutCode(node, getSource(node));
    for (const { pattern, advice } of REFUSED_WORDINGS) {
      for (const found of text.matchAll(pattern)) {
        report(node, new RuleError(`"${found[0].replace(/\s+/g, ' ')}": ${advice}`, { index: found.index }));
      }
    }
  };
  return { Paragraph: visit, Header: visit, TableCell: visit };
}

/** Refuses sentences of more than `SENTENCE_WORDS_MAX` words. In a cell of a table a semicolon ends a sentence, too. */
export function sentenceLength({ report, RuleError, getSource }: Context): Visitors {
  const visit = (node: TxtNode, end: RegExp): void => {
    let index = 0;
    // Each sentence, and the blank behind it.
    for (const sentence of withoutCode(node, getSource(node)).split(end)) {
      if (sentence === undefined) continue;
      const count = countWords(sentence);
      if (count > SENTENCE_WORDS_MAX) {
        report(
          node,
          new RuleError(`a sentence of ${count} words, of which ${SENTENCE_WORDS_MAX} are allowed`, { index }),
        );
      }
      index += sentence.length;
    }
  };
  return { Paragraph: (node) => visit(node, SENTENCE_END), TableCell: (node) => visit(node, ENTRY_END) };
}

function countWords(text: string): number {
  return text.match(/[\p{L}\p{N}]\S*/gu)?.length ?? 0;
}

/** Returns the source of `node`, as long as it is, with code as one word each and addresses blank. */
function withoutCode(node: TxtNode, source: string): string {
  const [start] = node.range;
  let text = source;
  const put = (from: number, to: number, fill: string): void => {
    text = text.slice(0, from - start) + fill.repeat(to - from) + text.slice(to - start);
  };
  const visit = (part: TxtNode): void => {
    if (part.type === 'Code') put(part.range[0], part.range[1], 'x');
    if (part.type === 'Html') put(part.range[0], part.range[1], ' ');
    const { children = [] } = part;
    const last = children.at(-1);
    if (part.type === 'Link' && last) put(last.range[1], part.range[1], ' ');
    for (const child of children) visit(child);
  };
  visit(node);
  return text;
}
