import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { compileChatTemplate } from '../../../../shared/tokens/template/chat-template.ts';
import { compileNodes, type TemplateProgram } from '../../../../shared/tokens/template/program.ts';
import { parseTemplate, TemplateRuntimeError, TemplateSyntaxError } from '../../../../shared/tokens/template/syntax.ts';

const compileProgram = (source: string): TemplateProgram['render'] => compileNodes(parseTemplate(source)).render;

interface GoldenRow {
  readonly template: string;
  readonly text?: string;
  readonly error?: string;
}

const [head, ...rows] = readFileSync(new URL('../../../fixtures/tokens/jinja-golden.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as unknown);
const { context } = head as { readonly context: Record<string, unknown> };

describe('template program', () => {
  it.each(rows as GoldenRow[])("prints what Python's Jinja prints: $template", ({ template, text, error }) => {
    const render = (): string => compileProgram(template)(context, 0);
    if (text === undefined) {
      expect(render).toThrow(TemplateRuntimeError);
      if (template.includes('raise_exception')) expect(render).toThrow(error);
    } else expect(render()).toBe(text);
  });

  it('writes times in English and UTC', () => {
    const program = compileProgram("{{ strftime_now('%d %b %Y %B %A %H:%M:%S %j %y %p %% %Q') }}");
    expect(program({}, Date.UTC(2026, 2, 5, 14, 3, 9))).toBe('05 Mar 2026 March Thursday 14:03:09 064 26 PM % %Q');
  });

  it('counts none and undefined as empty and contains nothing in them', () => {
    const program = compileProgram(
      "{{ none | length }}{{ nothing | length }}{{ 'a' in none }}{% for x in none %}x{% endfor %}",
    );
    expect(program({}, 0)).toBe('00False');
  });

  it.each([
    ["{{ [5] | int }} {{ {'toString': raise_exception} | int(7) }} {{ '5' | int }} {{ 'x' | int('8') }}", '0 7 5 8'],
    ["{{ '{}.'.format(*nothing) if false else 'a' }}{{ namespace(**nothing).x }}{{ dict(*nothing) }}", 'a{}'],
    ["{{ '%.300f' | format(0.5) | length }}", '102'],
    ["{{ '%(toString)s' | format(toString='a') }}", 'a'],
    ["{{ ('ab' * 3000).strip('x' * 5000 ~ 'ab') | length }}", '0'],
  ])('takes odd arguments: %s', (source, text) => {
    expect(compileChatTemplate(source).render({ messages: [], nowMs: 0 })).toBe(text);
  });

  it.each(["{{ '{}'.format(*5) }}", '{{ namespace(**[1]).x }}', '{{ namespace(**5).x }}'])(
    'refuses to spread what has no items: %s',
    (source) => {
      expect(() => compileProgram(source)({}, 0)).toThrow(TemplateRuntimeError);
    },
  );

  it('runs do as a statement without output', () => {
    expect(compileProgram("{% do namespace() %}a{% do 'x' ~ 'y' %}b")({}, 0)).toBe('ab');
  });

  it.each([
    ["{{ 'a' | nonsense }}", "filter 'nonsense'"],
    ["{{ 'a' is nonsense }}", "test 'nonsense'"],
    ["{% include 'x' %}", 'include'],
    ['{% if %}', 'CloseStatement'],
    ['{{ unclosed', 'end of input'],
  ])('names what it does not support when it is compiled: %s', (template, part) => {
    expect(() => compileProgram(template)).toThrow(TemplateSyntaxError);
    expect(() => compileProgram(template)).toThrow(part);
  });

  it.each([
    ['{{ range(1000000) }}', 'range'],
    ['{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}', 'nested too deeply'],
    ["{{ 'a'.nothing() }}", 'not a function'],
    ['{{ nothing() }}', 'not a function'],
    ["{{ ['a', 'b'][::0] }}", 'step'],
  ])('stops what has no bound or makes no sense: %s', (template, part) => {
    expect(() => compileProgram(template)({}, 0)).toThrow(TemplateRuntimeError);
    expect(() => compileProgram(template)({}, 0)).toThrow(part);
  });

  it('reaches no member that a value does not own', () => {
    const program = compileProgram("{{ x.constructor }}{{ x['__proto__'] }}{{ x.toString }}{{ 'a'.constructor }}");
    expect(program({ x: {} }, 0)).toBe('');
  });
});
