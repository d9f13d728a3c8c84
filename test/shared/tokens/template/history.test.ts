import { describe, expect, it } from 'vitest';
import { compileChatTemplate } from '../../../../shared/tokens/template/chat-template.ts';
import type { ChatTemplateInput } from '../../../../shared/tokens/types.ts';

type Messages = ChatTemplateInput['messages'];

const CUT = '{"city": "Par';
const user = (content: unknown): Messages[number] => ({ role: 'user', content });
const call = (text: string, id = 'call_0123456789'): object => ({
  id,
  type: 'function',
  function: { name: 'weather', arguments: text },
});
const calls = (...texts: readonly string[]): Messages[number] => ({
  role: 'assistant',
  content: null,
  tool_calls: texts.map((text, at) => call(text, `call_012345678${at}`)),
});
const result = (content: string, at = 0): Messages[number] => ({
  role: 'tool',
  tool_call_id: `call_012345678${at}`,
  content,
});
const render = (source: string, messages: Messages): string =>
  compileChatTemplate(source).render({ messages, nowMs: 0 });

/** How the families of templates write the arguments of a call. */
const CALLS = '{% for m in messages %}{{ m.role }}:{{ m.content }}{% for t in m.tool_calls or [] %}';
const END = '{% endfor %}|{% endfor %}';
const WRITERS = {
  'as JSON': `${CALLS}{"name": "{{ t.function.name }}", "arguments": {{ t.function.arguments | tojson }}}${END}`,
  'as JSON of the whole function': `${CALLS}{{ t.function | tojson }}${END}`,
  'as it is where it is text': `${CALLS}{{ t.function.arguments if t.function.arguments is string else t.function.arguments | tojson }}${END}`,
  'entry by entry, by the filter': `${CALLS}{% for k, v in t.function.arguments | items %}<{{ k }}>{{ v }}</{{ k }}>{% endfor %}${END}`,
  'entry by entry, by the method': `${CALLS}{% set a = t.function.arguments %}{% for k, v in a.items() %}<{{ k }}>{{ v if v is string else v | tojson }}</{{ k }}>{% endfor %}${END}`,
  'key by key': `${CALLS}{% for k in t.function.arguments %}<{{ k }}>{{ t.function.arguments[k] }}</{{ k }}>{% endfor %}${END}`,
  'by joining texts': `${CALLS}{{ 'args: ' + t.function.arguments }}${END}`,
  'as a text made of it': `${CALLS}{{ t.function.arguments | string }}${END}`,
} as const;

describe.each(Object.entries(WRITERS))('a template that writes arguments %s', (_, source) => {
  it.each([CUT, '[1, 2]', 'not json', '3', '"text"', '{"a": {"b": 1}'])('shows %j as the model wrote it', (written) => {
    const prompt = render(source, [user('a'), calls(written), result('r'), user('b')]);
    expect(prompt).toContain(written);
    expect(prompt).toContain('user:b');
  });

  it('shows an object as before', () => {
    const prompt = render(source, [user('a'), calls('{"city": "Paris"}'), result('r'), user('b')]);
    expect(prompt).toContain('city');
    expect(prompt).toContain('Paris');
  });

  it.each(['', '  ', '{}'])('takes %j for no arguments', (written) => {
    expect(render(source, [user('a'), calls(written), result('r'), user('b')])).toContain('user:b');
  });
});

describe('what the model thought', () => {
  const said = { role: 'assistant', content: 'Yes.', reasoning_content: 'so' };

  it.each([
    ['reasoning_content', '{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}', 'aso'],
    [
      'thinking',
      "{% for m in messages %}{% if 'thinking' in m %}{{ m.thinking }}{% endif %}{{ m.content }}{% endfor %}",
      'aso',
    ],
    ['reasoning', "{% for m in messages %}{{ m['reasoning'] }}{{ m.content }}{% endfor %}", 'aso'],
    ['no name', '{% for m in messages %}{{ m.content }}{% endfor %}', 'a<think>so</think>'],
  ])('reaches a template that reads %s', (_, source, start) => {
    expect(render(source, [user('a'), said, user('b')])).toBe(`${start}Yes.b`);
  });

  it('stands with the content where a template takes only one of both beside calls', () => {
    const source = `{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('both') }}{% endif %}[{{ m.thinking }}|{{ m.content }}]{% endfor %}`;
    const turn = { ...calls('{}'), content: 'Let me look.', reasoning_content: 'so' };
    expect(render(source, [user('a'), turn, result('r')])).toBe('[|a][so\nLet me look.|][|r]');
  });
});

describe('a template that is too narrow for a history', () => {
  const NO_TOOLS = `{% for m in messages %}{% if m.role not in ['user', 'assistant', 'system'] %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% if m.tool_calls %}{{ raise_exception('no tools') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}`;
  const ONE_CALL = `{% for m in messages %}{% if m.tool_calls and m.tool_calls | length != 1 %}{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}`;
  const USER_FIRST = `{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}`;

  it('gets calls and results as text', () => {
    expect(render(NO_TOOLS, [user('a'), calls('{"x": 1}'), result('sunny'), user('b')])).toBe(
      '[user:a][assistant:Called weather with {"x": 1}][user:Result of weather:\nsunny\n\nb]',
    );
    expect(render(ONE_CALL, [user('a'), calls('{}', CUT), result('r'), result('s', 1), user('b')])).toContain(CUT);
  });

  it.each([
    ['that begins with the model', [{ role: 'assistant', content: 'hi' }, user('b')]],
    [
      'of which turns were lost',
      [user('a'), { role: 'assistant', content: 'x' }, { role: 'assistant', content: 'y' }, user('b')],
    ],
    ['with a result without a call', [user('a'), result('r'), user('b')]],
    ['with a call that has no result', [user('a'), calls('{}'), user('b')]],
  ])('takes one %s', (_, messages) => {
    expect(render(USER_FIRST, messages)).toMatch(/b\]$/);
  });

  it('says that it was', () => {
    let told = 0;
    const onPlain = (): void => void told++;
    compileChatTemplate(NO_TOOLS).render({ messages: [user('a'), calls('{}'), result('r')], nowMs: 0, onPlain });
    expect(told).toBe(1);
  });
});

it('gives ids of nine letters and digits where a template takes no others', () => {
  const source = `{% for m in messages %}{% for t in m.tool_calls or [] %}{% if t.id | length != 9 %}{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}[{{ t.id }}]{% endfor %}{% if m.role == 'tool' %}({{ m.tool_call_id }}){% endif %}{% endfor %}`;
  const prompt = render(source, [user('a'), calls('{}', '{}'), result('r'), result('s', 1)]);
  const [, first, second] = /^\[([A-Za-z0-9]{9})\]\[([A-Za-z0-9]{9})\]/.exec(prompt) ?? [];
  expect(first).not.toBe(second);
  expect(prompt).toBe(`[${first}][${second}](${first})(${second})`);
});
