import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runStator } from '../support/index.ts';

const page = readFileSync('docs/planner.md', 'utf8');
const [, section = ''] = /### What each option buys\n([\s\S]*?)\n###? /.exec(page) ?? [];
const [, command = ''] = /npx stator ([\s\S]*?)```/.exec(section) ?? [];
const rows = section.split('\n').filter((line) => /^\| .* % \|/.test(line));

/** Words of the command before its files. */
const [load = ''] = command.replaceAll('\\\n', ' ').split('--planner-fleets');
const [, FROM_ZERO = ''] = /`--planner-config '(.*?)'`/.exec(section) ?? [];

const cellsOf = (row: string): readonly string[] => row.split('|').map((cell) => cell.trim().replaceAll('`', ''));
const only = (pattern: RegExp, text: string): string => pattern.exec(text)?.[1] ?? '';
const percent = (row: string): number => Number.parseFloat(cellsOf(row)[6]!);
const dollars = (row: string): number => Number(cellsOf(row)[9]);

describe('what each option buys, in the docs, says what comes of', () => {
  it.each(rows)('%s', async (row) => {
    const [, , , begins, fleets, conditions, met, refused, hours, cost] = cellsOf(row);
    const { stdout, stderr, code } = await runStator([
      ...load.trim().split(/\s+/),
      ...['--planner-fleets', `examples/planner/${fleets}`, '--fleet-conditions', `examples/planner/${conditions}`],
      ...(begins === 'from zero' ? ['--planner-config', FROM_ZERO] : ['--workers', '1']),
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect({
      met: only(/targets met +([\d.]+ %)/, stdout),
      refused: only(/answered, (\d+) refused/, stdout),
      hours: only(/GPU hours +([\d.]+)/, stdout),
      cost: only(/cost +([\d.]+) US/, stdout),
    }).toEqual({ met, refused, hours, cost });
  });
});

describe('what each option buys, in the docs, is right that', () => {
  const [onDemand = '', spotFirst = '', warm = '', zero = '', warmZero = '', ...faults] = rows;
  const [shortage = '', secondZone = '', spotAlone = '', spotLost = ''] = faults;

  it('the command it shows is that of the first row', () => {
    const [, , , , fleets, conditions] = cellsOf(onDemand);
    expect(command).toContain(`--planner-fleets examples/planner/${fleets} `);
    expect(command).toContain(`--fleet-conditions examples/planner/${conditions} --workers 1`);
  });

  it('a second option makes good a fault of the first', () => {
    expect(percent(secondZone)).toBeGreaterThan(percent(shortage) + 50);
    expect(Math.abs(percent(secondZone) - percent(onDemand))).toBeLessThan(2);
    expect(percent(spotLost)).toBeGreaterThan(percent(spotAlone) + 20);
  });

  it('spot serves as well as on demand at less than half of the price', () => {
    expect(percent(spotFirst)).toBe(percent(onDemand));
    expect(dollars(spotFirst)).toBeLessThan(dollars(onDemand) / 2);
  });

  it('a warm pool helps when the load rises, most of all from zero', () => {
    expect(percent(warm)).toBeGreaterThan(percent(onDemand));
    expect(percent(warmZero) - percent(zero)).toBeGreaterThan(percent(warm) - percent(onDemand));
  });
});
