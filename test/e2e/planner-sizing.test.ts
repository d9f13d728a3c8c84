import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runStator } from '../support/index.ts';

const page = readFileSync('docs/planner.md', 'utf8');
const [, section = ''] = /## How to size\n([\s\S]*?)\n## /.exec(page) ?? [];
const [, command = ''] = /npx stator ([\s\S]*?)```/.exec(section) ?? [];
const rows = section.split('\n').filter((line) => /^\| .* % \|/.test(line));

/** The words of a command line in which only values of JSON are quoted. */
function wordsOf(line: string): readonly string[] {
  return (line.replaceAll('\\\n', ' ').match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ''));
}

const only = (pattern: RegExp, text: string): string => pattern.exec(text)?.[1] ?? '';

describe('how to size, in the docs, says what comes of', () => {
  it.each(rows)('%s', async (row) => {
    const [, added = '', met, hours, ups, most] = row.split(/ *\| */);
    const own = wordsOf(command.replace(/--report \S+/, ''));
    const { stdout, code } = await runStator([
      ...own,
      ...(added === 'nothing' ? [] : wordsOf(added.replaceAll('`', ''))),
    ]);
    expect(code).toBe(0);
    expect({
      met: `${only(/targets met +([\d.]+ %)/, stdout)}`,
      hours: only(/GPU hours +([\d.]+)/, stdout),
      ups: only(/scaling +(\d+) ups/, stdout),
      most: only(/at most (\d+) workers/, stdout),
    }).toEqual({ met, hours, ups, most });
  });

  it('an example that scales', () => {
    expect(rows.length).toBeGreaterThan(3);
    expect(rows.filter((row) => /\| [1-9]\d* \| \d+ \|$/.test(row)).length).toBeGreaterThan(2);
  });
});
