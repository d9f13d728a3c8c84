import { describe, expect, it } from 'vitest';
import { lintPage, lintSource } from '../support/prose/lint.ts';
import { wrapLines } from '../support/prose/wrap.ts';

const LONG_SENTENCE = `${Array.from({ length: 36 }, (_, index) => `word${index}`).join(' ')}.`;
const longSentencesOf = (findings: readonly { line: number; message: string }[]) =>
  linesOf(findings.filter(({ message }) => message.startsWith('a sentence of 36 words')));
const linesOf = (findings: readonly { line: number; message: string }[]) =>
  findings.map(({ line }) => line).sort((a, b) => a - b);

describe('the linter of prose', () => {
  it('accepts a page that follows the style page', async () => {
    const page = '# Title\n\nThe frontend asks the worker. It waits as long as `nobody` says, see [nobody](x).\n';
    expect(await lintPage('page.md', page.replace('[nobody]', '[a name]'))).toEqual([]);
  });

  it.each([
    ['nobody', 'For nobody.'],
    ['whoever', 'Whoever reads it.'],
    ['somebody', 'Then somebody\nreads it.'],
    ['so long', 'It waits so\nlong.'],
    ['is told', 'It is told.'],
    ['is to be', 'It is to be read.'],
    ['is none', 'An id that is none counts as absent.'],
    ['matters not', 'The order matters not.'],
    ['but for the', 'All but for the last one.'],
  ])('refuses a wording in a page, and names what to write: %#', async (wording, sentence) => {
    const [finding, ...more] = await lintPage('page.md', `# Title\n\n${sentence}\n`);
    expect(finding?.message.toLowerCase()).toContain(wording === 'but for the' ? '"the"' : wording);
    expect(more).toEqual([]);
  });

  it('reads lists, headings and cells, and no code', async () => {
    const page =
      '## For nobody\n\n- for nobody\n\n| a |\n| --- |\n| for nobody |\n\n```sh\nfor nobody\n```\n\n`for nobody`\n';
    expect(linesOf(await lintPage('page.md', page))).toEqual([1, 3, 7]);
  });

  it('counts the words of a sentence, over lines and apart from those of its neighbours', async () => {
    const halves = LONG_SENTENCE.replace('word17 ', 'word17\n');
    const neighbours = LONG_SENTENCE.replace('word17 ', 'word17. ');
    expect(longSentencesOf(await lintPage('page.md', `Short one. ${halves}\n\n${neighbours}\n`))).toEqual([1]);
  });

  it('ends a sentence at the end of an indented line', async () => {
    const item = `- ${LONG_SENTENCE.replace('word17 ', 'word17.\n  ')}\n`;
    expect(longSentencesOf(await lintPage('page.md', item))).toEqual([]);
  });

  it('lets a semicolon end an entry in a cell only', async () => {
    const entries = LONG_SENTENCE.replace('word17 ', 'word17; ');
    expect(longSentencesOf(await lintPage('page.md', `${entries}\n\n| a |\n| --- |\n| ${entries} |\n`))).toEqual([1]);
  });

  it('refuses lines beyond column 120, except tables, code and addresses', async () => {
    const long = 'Short words. '.repeat(10).trim();
    const page = `${long}\n\n| a |\n| --- |\n| ${long} |\n\n\`\`\`sh\n${long}\n\`\`\`\n\nAt https://example.com. ${long}\n`;
    expect(linesOf(await lintPage('page.md', page))).toEqual([1]);
  });

  it('reads the newest heading of a changelog alone', async () => {
    const changelog = `# Changelog\n\n## New\n\n- For nobody.\n\n## Old\n\n- For nobody.\n`;
    expect(linesOf(await lintPage('CHANGELOG.md', changelog))).toEqual([5]);
  });

  it('reads comments and messages of a source, at their lines, and no code', async () => {
    const source = [
      '/** What it is. */',
      'const nobody = { // for nobody',
      '  // Sentences run over',
      '  // lines: it is',
      '  // told.',
      "  error: 'it was asked by nobody',",
      "  url: 'http://nobody', code: `one or two nobody has`,",
      '};',
      '/**',
      ' * Returns it.',
      ' *',
      ' * @param a - for nobody',
      ' * @example for nobody',
      ' */',
    ].join('\n');
    expect(linesOf(await lintSource('source.ts', source))).toEqual([1, 2, 4, 6, 7, 12]);
  });

  it('reads only the titles of a file of tests', async () => {
    const source = [
      "describe('whoever reads', () => {",
      "  it('asks nobody', () => {",
      "    expect(() => call('for nobody', 1)).toThrow('the page that nobody reads');",
      '  });',
      "  it.each([['x']])('asks nobody for %s', (name) => {}); // for nobody",
      '});',
    ].join('\n');
    expect(linesOf(await lintSource('source.test.ts', source))).toEqual([1, 2, 5]);
  });

  it.each([
    ['an array', "it.each([\n['nobody', 1],\n['nobody', 'nobody']])('%s', () => {});", [2, 3]],
    ['texts', "it.each([\n'nobody'])('takes %s', () => {});", [2]],
    ['two places', "it.each([\n[1, 'a', 'nobody'],\n['a', 'nobody', 1]])('%s of %s', () => {});", [3]],
    ['fields', "describe.each([\n{ a: 'nobody', b: 1 },\n{ a: 1, b: 'nobody' }])('$a', () => {});", [2]],
    ['a constant', "const ROWS = [\n['nobody']] as const;\nit.each(ROWS)('%s', () => {});", [2]],
    ['a filtered constant', "const ROWS = [\n['nobody']];\nit.each(ROWS.filter(Boolean))('%s', () => {});", [2]],
    ['keys', "const OF = {\n'nobody': 1 };\nit.each(Object.entries(OF))('%s', () => {});", [2]],
    ['a template', `it(\`of \${x} nobody\`, () => {});\nit(\`of \${x ? 'nobody' : 'a'}\`, () => {});`, [1, 2]],
    ['two titles', "const ROWS = [\n['nobody']];\nit.each(ROWS)('%s', a);\nit.each(ROWS)('%s', b);", [2]],
    ['no title', "it.each([\n['nobody']])('of a row', () => {});", []],
  ])('reads what a title shows of its rows, from %s', async (_, source, lines) => {
    expect(linesOf(await lintSource('source.test.ts', source))).toEqual(lines);
  });
});

describe('wrapping', () => {
  const text = 'Words of a line. '.repeat(9).trim();

  it('moves what is beyond column 120 of a page to the next line of its paragraph', () => {
    const wrapped = wrapLines(`- ${text}\n  and on.\n- next\n\n| ${text} |`, true).split('\n');
    expect(wrapped).toHaveLength(5);
    expect(wrapped[1]).toMatch(/^ {2}\S.* and on\.$/);
    expect(wrapped.slice(2)).toEqual(['- next', '', `| ${text} |`]);
  });

  it('lays a long docstring over lines, which say the same', () => {
    const wrapped = wrapLines(`  /** ${text} */\n  field: string;`, false);
    expect(wrapped.split('\n').every((line) => line.length <= 120)).toBe(true);
    expect(
      wrapped
        .replace(/\n {3}\*\/?/g, '')
        .replace(/ {2}\/\*\*/, '')
        .trim(),
    ).toBe(`${text}\n  field: string;`);
  });

  it('leaves a line whole within code', () => {
    const code = `\`${'code '.repeat(23)}\` ${text}`;
    expect(wrapLines(code, true).split('\n')[0]).toBe(`\`${'code '.repeat(23)}\``);
  });
});
