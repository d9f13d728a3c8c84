import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { TextlintKernel, type TextlintKernelOptions } from '@textlint/kernel';
import { type Message, readProse } from './comments.ts';
import { refusedWordings, sentenceLength } from './rules.ts';
import { readTitles } from './titles.ts';
import { REFUSED_OPENING, REFUSED_WORDINGS } from './words.ts';

/** A place in a file that breaks the style page. */
export interface Finding {
  readonly line: number;
  readonly message: string;
}

/** The last column of a line of prose. */
export const COLUMNS_MAX = 120;

/**
 * Checks of write-good. Two of them find mistakes: repeated words and clichés. The others refuse terms of the field.
 */
const WRITE_GOOD = {
  ...{ weasel: false, so: false, thereIs: false, passive: false, adverb: false, tooWordy: false },
  ...{ illusion: true, cliches: true },
};

// CommonJS packages with a `default` of their own, which importers treat differently.
const require = createRequire(import.meta.url);
const markdown = require('@textlint/textlint-plugin-markdown');
const writeGood = require('textlint-rule-write-good');

const kernel = new TextlintKernel();
const options: TextlintKernelOptions = {
  ext: '.md',
  plugins: [{ pluginId: 'markdown', plugin: markdown.default }],
  rules: [
    { ruleId: 'refused-wordings', rule: refusedWordings as never },
    { ruleId: 'sentence-length', rule: sentenceLength as never },
    { ruleId: 'write-good', rule: writeGood.default, options: WRITE_GOOD },
  ],
};

/** Lints one file: a page in Markdown, or what `lintSource` reads of a TypeScript file. */
export async function lintFile(path: string): Promise<Finding[]> {
  const text = readFileSync(path, 'utf8');
  const findings = path.endsWith('.md') ? await lintPage(path, text) : await lintSource(path, text);
  return findings.sort((a, b) => a.line - b.line);
}

/**
 * Lints a page. Of a changelog only the newest heading counts, and its entries stay on one line each, so that merges
 * keep them.
 */
export async function lintPage(path: string, text: string): Promise<Finding[]> {
  const isChangelog = path.endsWith('CHANGELOG.md');
  const end = isChangelog ? text.indexOf('\n## ', text.indexOf('\n## ') + 1) : -1;
  const read = end < 0 ? text : text.slice(0, end);
  return [...(await lintMarkdown(read)), ...(isChangelog ? [] : longLines(read.split('\n')))];
}

/** Lints the comments and the messages of a TypeScript file, or only the titles if it is a file of tests. */
export async function lintSource(path: string, text: string): Promise<Finding[]> {
  if (path.endsWith('.test.ts')) return refusedIn(readTitles(path, text));
  const { comments, messages } = readProse(path, text);
  const findings: Finding[] = [];
  const lines: string[] = [];
  const lineOf: number[] = [];
  for (const { firstLine, isDocstring, lines: own } of comments) {
    const opening = own.find((line) => line !== '') ?? '';
    const refused = isDocstring ? REFUSED_OPENING.exec(opening) : null;
    if (refused) {
      findings.push({
        line: firstLine,
        message: `a docstring begins with a verb or a noun, not with "${refused[0].trim()}"`,
      });
    }
    for (const [index, line] of [...own, ''].entries()) {
      lines.push(line);
      lineOf.push(firstLine + index);
    }
  }
  for (const { line, message } of await lintMarkdown(lines.join('\n'))) {
    findings.push({ line: lineOf[line - 1] ?? 1, message });
  }
  findings.push(...refusedIn(messages));
  const source = text.split('\n');
  const commented = new Set(comments.flatMap(({ firstLine, lines: own }) => own.map((_, index) => firstLine + index)));
  return [...findings, ...longLines(source.map((line, index) => (commented.has(index + 1) ? line : '')))];
}

function refusedIn(messages: readonly Message[]): Finding[] {
  return messages.flatMap(({ line, text }) =>
    REFUSED_WORDINGS.flatMap(({ pattern, advice }) =>
      [...text.matchAll(pattern)].map(([found]) => ({ line, message: `"${found}": ${advice}` })),
    ),
  );
}

async function lintMarkdown(text: string): Promise<Finding[]> {
  const { messages } = await kernel.lintText(text, options);
  return messages.map(({ loc, message }) => ({ line: loc.start.line, message }));
}

/** Finds the lines beyond the last column, except rows of tables, code and lines with an address. */
function longLines(lines: readonly string[]): Finding[] {
  const findings: Finding[] = [];
  let isCode = false;
  for (const [index, line] of lines.entries()) {
    if (/^\s*(?:\* )?```/.test(line)) isCode = !isCode;
    if (line.length <= COLUMNS_MAX || isCode || /^\s*(?:\*\s*)?[|!]/.test(line) || line.includes('://')) continue;
    findings.push({
      line: index + 1,
      message: `a line of ${line.length} columns, of which ${COLUMNS_MAX} are allowed`,
    });
  }
  return findings;
}
