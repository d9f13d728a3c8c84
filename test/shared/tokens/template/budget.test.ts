import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import { TemplateBudgetError } from '../../../../shared/tokens/template/budget.ts';
import { compileChatTemplate } from '../../../../shared/tokens/template/chat-template.ts';
import { TemplateSyntaxError } from '../../../../shared/tokens/template/syntax.ts';

const SHOW = '{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}';
/** Doubles `ns.x`, 60 times unless told otherwise. */
const doubled = (start: string, change: string, times = 60): string =>
  `{% set ns = namespace(x=${start}) %}{% for a in range(${times}) %}{% set ns.x = ${change} %}{% endfor %}`;
const loops = (body: string): string =>
  `{% for a in range(100000) %}{% for b in range(100000) %}${body}{% endfor %}{% endfor %}`;
const LONG = "('a' * 900000)";
/** Looked for in LONG, it is nearly there at each character. */
const NEARLY = "('ab' + 'a' * 1000)";
const MAPPINGS = '{% set d = dict(range(20000) | batch(2)) %}{% set e = dict(range(20002) | batch(2)) %}';
const often = (body: string): string => `{% for a in range(1000) %}${body}{% endfor %}`;

const HOSTILE: Readonly<Record<string, string>> = {
  'nested loops': loops(''),
  'one loop over loops of a string': `{% for a in ${LONG} %}{% for b in ${LONG} %}{% endfor %}{% endfor %}`,
  'a filtered loop': `{% for a in range(100000) if 'b' in ${LONG} %}{% endfor %}`,
  'a list that doubles': doubled('[1, 2]', 'ns.x + ns.x'),
  'a tuple that doubles': doubled('(1, 2)', 'ns.x + ns.x'),
  'a text that doubles': `${doubled("'aaaa'", 'ns.x ~ ns.x')}{{ ns.x }}`,
  'a text that doubles by +': `${doubled("'aaaa'", 'ns.x + ns.x')}{{ ns.x | length }}`,
  'a text that grows by join': doubled("'aaaa'", "[ns.x, ns.x] | join('-')"),
  'a text that grows by join of a text': doubled("'aaaa'", 'ns.x.join([ns.x, ns.x, ns.x])'),
  'a text that grows by replace': doubled("'aaaa'", "ns.x | replace('a', 'aaaa')"),
  'a text that grows by replace of nothing': doubled("'aaaa'", "ns.x.replace('', 'aa')"),
  'a text that grows by format': doubled("'aaaa'", "'{0}{0}{0}'.format(ns.x)"),
  'a text that grows by percent': doubled("'aaaa'", "'%s%s' | format(ns.x, ns.x)"),
  'a text that grows by JSON': doubled('\'""\'', 'ns.x | tojson'),
  'a text that grows by its repr': doubled('"\\\\\\\\"', '[ns.x] | string'),
  'a text that grows by a block': `${doubled("'aaaa'", "'x'")}{% set y = 'aaaa' %}${'{% set y %}{{ y }}{{ y }}{% endset %}'.repeat(40)}`,
  repetition: "{{ 'a' * 1000000000 }}",
  'repetition of a list': '{{ [1] * 1000000000 }}',
  'a wide indent': "{{ 'a\nb' | indent(1000000000, true) }}",
  'an indent of many lines': `{{ ('a\\n' * 100000) | indent(1000) }}`,
  'a wide JSON': '{{ messages | tojson(indent=1000000000) }}',
  'a wide center': "{{ 'a' | center(1000000000) }}{{ 'a'.rjust(1000000000) }}",
  'a wide format': loops("{{ '{:>900000}'.format('a') }}"),
  'many batches': "{{ [1] | batch(1000000000, 'x') | list }}",
  'many slices': '{{ [1] | slice(1000000000) | list }}',
  'many ranges': loops('{% set x = range(100000) %}'),
  'a mapping that grows': `${doubled('{}', 'dict(ns.x, **{a | string: range(10000) | list})', 100_000)}`,
  'a list of lists': `${doubled('[1, 2]', '[ns.x, ns.x]', 100)}{{ ns.x }}`,
  'a list of lists as JSON': `${doubled('[1, 2]', '[ns.x, ns.x]', 100)}{{ ns.x | tojson }}`,
  'a list of lists compared': `${doubled('[1, 2]', '[ns.x, ns.x]', 100)}{% set y = ns.x %}${doubled('[1, 2]', '[ns.x, ns.x]', 100)}{{ ns.x == y }}`,
  'a deep list': `${doubled('[]', '[ns.x]', 20_000)}{{ ns.x }}`,
  'sorting again and again': loops('{% set x = range(10000) | sort %}'),
  'sorting long texts': `{% set l = [${LONG}, ${LONG} ~ 'a', ${LONG} ~ 'b'] %}${loops('{% set x = l | sort %}')}`,
  grouping: loops("{% set x = range(10000) | groupby('a') %}"),
  'unique lists': '{% set l = range(30000) | batch(1) | list %}{{ l | unique | list | length }}',
  'searching a text': loops(`{% if 'b' in ${LONG} %}{% endif %}`),
  'searching a kept text': `{% set t = ${LONG} %}${loops("{% if t.find('b') > 0 or t.count('b') or t is upper %}{% endif %}")}`,
  splitting: `{% set t = ${LONG} %}${loops("{% set x = t.split('a') %}")}`,
  'splitting into lines': `{% set t = 'a\\n' * 90000 %}${loops('{% set x = t.splitlines() %}')}`,
  reversing: `{% set t = ${LONG} %}${loops('{% set x = t[::-1] %}')}`,
  slicing: `{% set t = range(100000) | list %}${loops('{% set x = t[1:] %}')}`,
  'wrapping words': `{{ ('a ' * 400000) | wordwrap(1) }}${loops("{% set x = 'a b' | wordwrap(1) %}")}`,
  'macros that call each other twice':
    '{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}',
  'a macro with a caller':
    '{% macro f(n) %}{% if n > 0 %}{% call f(n - 1) %}{% endcall %}{% call f(n - 1) %}{% endcall %}{% endif %}{% endmacro %}{{ f(100) }}',
  'JSON read again and again': loops(`{% set x = '[1,2,3,4,5,6,7,8]' | fromjson %}`),
  'a filter of long items': `{{ ([${LONG}] * 30) | map('wordcount') | list | length }}`,
  'a test of long items': `{{ ([${LONG}] * 30) | select('upper') | list | length }}`,
  'a test of long attributes': `{{ ([{'a': ${LONG}}] * 30) | rejectattr('a', 'lower') | list | length }}`,
  'a long text looked for': `{{ ${LONG}.find(${NEARLY}) }}`,
  'a long text looked for from the right': `{{ ${LONG}.rfind('a' * 1000 + 'ba') }}`,
  'a long text looked for by in': `{{ ${NEARLY} in ${LONG} }}`,
  'a long text replaced': `{{ ${LONG} | replace(${NEARLY}, '') | length }}`,
  'a long separator': `{{ ${LONG}.split(${NEARLY}) | length }}{{ ${LONG}.partition(${NEARLY}) | length }}`,
  'many beginnings': `{% set t = ${LONG} %}{{ t.startswith([t[1:] ~ 'b'] * 1000) }}{{ t.endswith(['b' ~ t[1:]] * 1000) }}`,
  'a list as arguments': `{% set l = range(10000) | list %}${often("{% set x = '{}'.format(*l) %}")}`,
  'a mapping as arguments': MAPPINGS + often('{% set x = namespace(**d) %}'),
  'mappings of other lengths compared': MAPPINGS + often('{% if d == e %}{% endif %}'),
  'a list of lists as a separator': `${doubled('[1, 2]', '[ns.x, ns.x]', 20)}{{ 1 | tojson(separators=ns.x) }}`,
  'a deep list that is printed': `${doubled(`[${LONG}]`, '[ns.x]', 500)}{{ ns.x | string | length }}`,
  'long dates': often("{% set x = strftime_now('%Y' * 40000) %}"),
};

const chat = (content: string, times = 1) => ({
  messages: Array.from({ length: times }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content })),
  nowMs: 0,
});

function refusal(action: () => unknown): ServeError {
  try {
    action();
  } catch (error) {
    if (error instanceof ServeError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('budget of a template', () => {
  it.each(Object.entries(HOSTILE))('refuses the template when it is tried: %s', (_, source) => {
    expect(() => compileChatTemplate(source + SHOW)).toThrow(TemplateBudgetError);
  });

  it.each(Object.entries(HOSTILE))('ends a template that waits for a request: %s', (_, source) => {
    const told: string[] = [];
    const waiting = `{% for m in messages %}{% if m.content == 'hello' %}${source}{% endif %}{% endfor %}${SHOW}`;
    const template = compileChatTemplate(waiting, undefined, (reason) => void told.push(reason));
    expect(refusal(() => template.render(chat('hello'))).code).toBe('service_unavailable');
    expect(refusal(() => template.render(chat('template_test'))).code).toBe('service_unavailable');
    expect(told).toHaveLength(1);
  });

  it('refuses one request where only that one is too expensive', () => {
    const cubic =
      '{% for a in messages %}{% for b in messages %}{% for c in messages %}{% endfor %}{% endfor %}{% endfor %}' +
      SHOW;
    const template = compileChatTemplate(cubic, undefined, () => expect.unreachable());
    const error = refusal(() => template.render(chat('x', 4000)));
    expect([error.code, error.param]).toEqual(['invalid_value', 'messages']);
    expect(template.render(chat('x'))).toBe('<user>x');
  });

  it('leaves room for long histories, and for loops over messages within loops over them', () => {
    const thinking = `{% set ns = namespace(last=0, text='') %}{% for m in messages[::-1] %}{% if m.role == 'user' and ns.last == 0 %}{% set ns.last = loop.index %}{% endif %}{% endfor %}{% for m in messages %}{% set parts = m.content.split('</think>') %}{% set ns.text = ns.text ~ (parts | last).strip().replace('a', 'b') %}{{ m.content | trim | tojson }}{% endfor %}{{ ns.text }}`;
    const history = chat(`word ${'lorem ipsum '.repeat(170)}`, 2000); // 4 million characters
    expect(compileChatTemplate(thinking).render(history).length).toBeGreaterThan(8_000_000);
    const square = `{% for m in messages %}{% for n in messages %}{% if n.role == 'tool' %}{% endif %}{% endfor %}{% endfor %}${SHOW}`;
    expect(compileChatTemplate(square).render(chat('lorem ipsum '.repeat(100), 1000)).length).toBeGreaterThan(
      1_000_000,
    );
  });

  it.each([
    ['too long', 'a'.repeat(100_000), '100000 characters'],
    ['white space without end', `a${' '.repeat(5000)}b`, 'white space'],
    ['parentheses in parentheses', `{{ ${'('.repeat(12_000)}1${')'.repeat(12_000)} }}`, 'call stack'],
  ])('refuses to compile what is %s', (_, source, words) => {
    expect(() => compileChatTemplate(source)).toThrow(TemplateSyntaxError);
    expect(() => compileChatTemplate(source)).toThrow(words);
  });
});
