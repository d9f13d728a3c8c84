import ts from 'typescript';

/** A comment, or several `//` comments on lines that follow each other, without the marks of a comment. */
export interface Comment {
  /** The line of the file, from 1, on which `lines[0]` stands. */
  readonly firstLine: number;
  readonly isDocstring: boolean;
  readonly lines: readonly string[];
}

/** A literal text of a program that has at least four words: an error, a line of a log, a line of help. */
export interface Message {
  readonly line: number;
  readonly text: string;
}

const WORDS_MIN = 4;
/** Directives to tools, which are not sentences. */
const DIRECTIVE = /^(?:biome-ignore|@ts-|@type\b|#__PURE__|\/ )/;

/** Reads the comments and messages of a TypeScript file, in the order of the file. */
export function readProse(path: string, text: string): { readonly comments: Comment[]; readonly messages: Message[] } {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, false);
  const ranges = new Map<number, ts.CommentRange>();
  const messages: Message[] = [];
  const lineOf = (position: number): number => file.getLineAndCharacterOfPosition(position).line + 1;
  const visit = (node: ts.Node): void => {
    if (ts.isJSDoc(node)) return;
    for (const child of node.getChildren(file)) visit(child);
    if (isLiteral(node) && node.text.trim().split(/\s+/).length >= WORDS_MIN) {
      messages.push({ line: lineOf(node.getStart(file)), text: node.text });
    }
    if (!ts.isToken(node)) return;
    for (const range of ts.getLeadingCommentRanges(text, node.pos) ?? []) ranges.set(range.pos, range);
    for (const range of ts.getTrailingCommentRanges(text, node.end) ?? []) ranges.set(range.pos, range);
  };
  visit(file);
  const inOrder = [...ranges.values()].sort((a, b) => a.pos - b.pos);
  const comments = inOrder.map((range) => commentOf(text.slice(range.pos, range.end), lineOf(range.pos)));
  return { comments: joinNeighbours(comments), messages };
}

function isLiteral(node: ts.Node): node is ts.LiteralLikeNode {
  return ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node) || ts.isTemplateLiteralToken(node);
}

function commentOf(source: string, firstLine: number): Comment {
  if (source.startsWith('//')) {
    const line = source.slice(2).trim();
    return { firstLine, isDocstring: false, lines: [DIRECTIVE.test(line) ? '' : line] };
  }
  const lines = source
    .replace(/^\/\*+/, '')
    .replace(/\*+\/$/, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd());
  const example = lines.findIndex((line) => line.startsWith('@example'));
  const prose = example < 0 ? lines : lines.slice(0, example);
  return {
    firstLine,
    isDocstring: source.startsWith('/**'),
    lines: prose.map((line, index) => (index === 0 ? line.trim() : line.replace(/^@\w+ /, ''))),
  };
}

/** Joins `//` comments of neighbouring lines, over which sentences run on. */
function joinNeighbours(comments: readonly Comment[]): Comment[] {
  const joined: { firstLine: number; isDocstring: boolean; isBlock: boolean; lines: string[] }[] = [];
  for (const { firstLine, isDocstring, lines } of comments) {
    const last = joined.at(-1);
    const isBlock = isDocstring || lines.length > 1;
    if (last && !last.isBlock && !isBlock && last.firstLine + last.lines.length === firstLine)
      last.lines.push(...lines);
    else joined.push({ firstLine, isDocstring, isBlock, lines: [...lines] });
  }
  return joined;
}
