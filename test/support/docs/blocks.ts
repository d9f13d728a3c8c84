import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A code block of a page. */
export interface CodeBlock {
  /** File and line of the block. */
  readonly place: string;
  /** Language after the fence, such as `sh`, or empty. */
  readonly language: string;
  readonly text: string;
  /** Reason why no test runs the block, from a comment `<!-- not run: REASON -->` right above it. */
  readonly notRun: string | undefined;
}

/** A page with its blocks in order. */
export interface DocsPage {
  readonly file: string;
  readonly blocks: readonly CodeBlock[];
}

const FENCE = /^```(\w*)$/;
const MARK = /^<!-- not run: (.+) -->$/;

/** Reads the fenced blocks of a Markdown text. */
export function readBlocks(file: string, markdown: string): readonly CodeBlock[] {
  const blocks: CodeBlock[] = [];
  const lines = markdown.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const language = lines[at]?.match(FENCE)?.[1];
    if (language === undefined) continue;
    const end = lines.indexOf('```', at + 1);
    if (end < 0) throw new Error(`${file}:${at + 1}: a block that does not end`);
    const notRun = lines[at - 1]?.match(MARK)?.[1];
    blocks.push({ place: `${file}:${at + 1}`, language, text: lines.slice(at + 1, end).join('\n'), notRun });
    at = end;
  }
  return blocks;
}

/** Reads the commands in the comment at the head of an example, which are its indented lines. */
function readHead(file: string, source: string): readonly CodeBlock[] {
  const head = source.split('\n').filter((_, at, all) => all.slice(0, at + 1).every((each) => each.startsWith('//')));
  const commands = head.flatMap((line) => line.match(/^\/\/ {3}(.*)/)?.[1] ?? []);
  return [{ place: `${file}:1`, language: 'sh', text: commands.join('\n'), notRun: undefined }];
}

/** Reads every page of the repository at `root` that shows commands: the README, docs/ and examples/. */
export function readPages(root: string): readonly DocsPage[] {
  const list = (folder: string, ending: string) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith(ending))
      .map((name) => `${folder}/${name}`)
      .sort();
  const read = (file: string) => readFileSync(join(root, file), 'utf8');
  const pages = ['README.md', ...list('docs', '.md')].map((file) => ({ file, blocks: readBlocks(file, read(file)) }));
  const examples = list('examples', '.mjs').map((file) => ({ file, blocks: readHead(file, read(file)) }));
  return [...pages, ...examples].filter(({ blocks }) => blocks.length > 0);
}

/** Returns the commands of a shell block. A line that ends in a backslash is joined with the next one. */
export function commandsOf({ text }: CodeBlock): readonly string[] {
  return text
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '');
}
