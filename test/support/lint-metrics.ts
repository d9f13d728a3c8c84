/** Returns the findings of `promtool check metrics` for a page: the rules that our pages could break, in its order. */
export function lintMetrics(page: string): readonly string[] {
  if (!page.endsWith('\n')) return ['the last line is not ended'];
  const findings: string[] = [];
  const families = new Map<string, { help: string; type: string }>();
  const samples = new Set<string>();
  for (const line of page.split('\n')) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    if (keyword !== undefined) {
      const family = families.get(name) ?? { help: '', type: '' };
      if (keyword === 'HELP' ? family.help !== '' : family.type !== '') findings.push(`${name} is described twice`);
      families.set(name, keyword === 'HELP' ? { ...family, help: rest } : { ...family, type: rest });
    } else if (line !== '' && !line.startsWith('#')) {
      if (!/^[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^\n]*\})? \S+( \d+)?$/.test(line)) findings.push(`no sample: ${line}`);
      const series = line.slice(0, line.lastIndexOf(' '));
      if (samples.has(series)) findings.push(`${series} is there twice`);
      samples.add(series);
    }
  }
  for (const [name, { help, type }] of families) findings.push(...lintFamily(name, help, type));
  return findings;
}

const ABBREVIATED = /(?:^|_)(?:s|ms|us|ns|sec|b|kb|mb|gb|m|h|d)(?:_|$)/;
const NOT_BASE = /(?:^|_)(?:milliseconds|microseconds|nanoseconds|minutes|hours|days|kilobytes|megabytes|bits)(?:_|$)/;

function lintFamily(name: string, help: string, type: string): readonly string[] {
  const isCounter = type === 'counter';
  const isSpread = type === 'histogram' || type === 'summary';
  const found: [boolean, string][] = [
    [help === '', 'no help text'],
    [isCounter && !name.endsWith('_total'), 'counter metrics should have "_total" suffix'],
    [!isCounter && name.endsWith('_total'), 'non-counter metrics should not have "_total" suffix'],
    [
      !isSpread && /_(count|sum|bucket)$/.test(name),
      'non-histogram and non-summary metrics should not have its suffix',
    ],
    [/_(counter|gauge|histogram|summary)$/.test(name), 'metric name should not include its type'],
    [/[A-Z]/.test(name), "metric names should be written in 'snake_case' not 'camelCase'"],
    [name.includes(':'), "metric names should not contain ':'"],
    [ABBREVIATED.test(name), 'metric names should not contain abbreviated units'],
    [NOT_BASE.test(name), 'use base unit'],
  ];
  return found.filter(([isFound]) => isFound).map(([, text]) => `${name} ${text}`);
}
