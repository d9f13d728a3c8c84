import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import { parseJsonBody } from '../../../../shared/protocol/index.ts';
import { compileChatTemplate } from '../../../../shared/tokens/template/chat-template.ts';
import type { ChatTemplateInput } from '../../../../shared/tokens/types.ts';

type Messages = ChatTemplateInput['messages'];

/** Shows what a template is given. */
const SHOW = '{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}';
const ALTERNATING = `{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == (1 if messages[0].role == 'system' else 0)) and m.role != 'system' %}{{ raise_exception('alternate') }}{% endif %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('system first') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}`;

const render = (source: string, messages: Messages, more: Partial<ChatTemplateInput> = {}): string =>
  compileChatTemplate(source).render({ messages, nowMs: 0, ...more });

const user = (content: unknown): Messages[number] => ({ role: 'user', content });
const assistant = (content: unknown, more: object = {}): Messages[number] => ({ role: 'assistant', content, ...more });
const system = (content: unknown): Messages[number] => ({ role: 'system', content });

function refusal(action: () => unknown): ServeError {
  try {
    action();
  } catch (error) {
    if (error instanceof ServeError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('chat template, variables', () => {
  it('adds the generation prompt by default', () => {
    const source = '{% if add_generation_prompt %}ask{% else %}-{% endif %}';
    expect(render(source, [user('x')])).toBe('ask');
    expect(render(source, [user('x')], { addGenerationPrompt: false })).toBe('-');
  });

  it('leaves tools undefined when there are none', () => {
    const source = '{{ tools is defined }}';
    expect(render(source, [user('x')])).toBe('False');
    expect(render(source, [user('x')], { tools: [] })).toBe('False');
    expect(render(source, [user('x')], { tools: [{ type: 'function', function: { name: 'f' } }] })).toBe('True');
  });

  it('lets arguments override everything', () => {
    const source = '{{ enable_thinking }}{{ add_generation_prompt }}{{ bos_token }}';
    expect(
      render(source, [user('x')], { args: { enable_thinking: false, add_generation_prompt: 1, bos_token: 'B' } }),
    ).toBe('False1B');
  });

  it('tells the time it is given', () => {
    expect(render("{{ strftime_now('%Y-%m-%d') }}", [user('x')], { nowMs: Date.UTC(2026, 0, 2) })).toBe('2026-01-02');
  });

  it('completes what clients leave out of tools', () => {
    const tools = [
      { type: 'function', function: { name: 'f', description: null, parameters: {} } },
      {
        type: 'function',
        function: { name: 'g', description: 'd', parameters: { type: 'array', properties: { a: 1 } } },
      },
      { type: 'function', function: { name: 'h' } },
      { type: 'web_search' },
    ];
    expect(JSON.parse(render('{{ tools | tojson }}', [user('x')], { tools }))).toEqual([
      { type: 'function', function: { name: 'f', description: '', parameters: { type: 'object', properties: {} } } },
      tools[1],
      { type: 'function', function: { name: 'h', description: '' } },
      { type: 'web_search' },
    ]);
  });
});

describe('chat template, JSON of the client', () => {
  const PARAMETERS =
    '{"type":"object","properties":{"b":{"minimum":0.0,"maximum":1e400},"2024":{},"10":{"enum":[12345678901234567890,-0,1.50]},"a":{}}}';
  const body = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","description":"","parameters":${PARAMETERS}}}]}`;
  const { tools } = parseJsonBody(Buffer.from(body)).value as {
    readonly tools: NonNullable<ChatTemplateInput['tools']>;
  };
  const spaced = PARAMETERS.replaceAll(',', ', ').replaceAll(':', ': ');

  it('writes tools in the order of their keys and the text of their numbers', () => {
    const text = render('{{ tools[0].function.parameters | tojson }}', [user('x')], { tools });
    expect(text).toBe(spaced);
    const compact = "{{ tools[0].function.parameters | tojson(separators=(',', ':')) }}";
    expect(render(compact, [user('x')], { tools })).toBe(PARAMETERS);
  });

  it('lists members in that order, and numbers as numbers', () => {
    const source =
      '{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}{% if v.minimum is defined %}={{ v.minimum }}{{ v.minimum is float }}{{ v.minimum + 1 }}{% endif %};{% endfor %}{{ tools[0].function.parameters.properties["10"].enum[0] }}';
    expect(render(source, [user('x')], { tools })).toBe('b=0.0True1;2024;10;a;12345678901234567890');
    const sorted = '{{ tools[0].function.parameters.properties | tojson(sort_keys=true) }}';
    expect(Object.keys(JSON.parse(render(sorted, [user('x')], { tools })) as object).sort()).toHaveLength(4);
    expect(render(sorted, [user('x')], { tools })).toMatch(/^\{"10": .*"2024": .*"a": .*"b"/);
  });

  it('writes the arguments of calls as the model wrote them', () => {
    const call = { type: 'function', function: { name: 'f', arguments: '{"z":0.0,"2024":1e3,"10":[2.50]}' } };
    const history = [user('x'), assistant('', { tool_calls: [call] })];
    const source =
      '{% for m in messages if m.tool_calls %}{% for t in m.tool_calls %}{{ t.function.arguments | tojson }}{% for k, v in t.function.arguments.items() %}<{{ k }}>{{ v }}{% endfor %}{% endfor %}{% endfor %}';
    expect(render(source, history)).toBe('{"z": 0.0, "2024": 1e3, "10": [2.50]}<z>0.0<2024>1e3<10>[2.50]');
  });
});

describe('chat template, order of roles', () => {
  it('leaves the order alone when the template takes any', () => {
    expect(render(SHOW, [user('a'), user('b'), system('c')])).toBe('[user:a][user:b][system:c]');
  });

  it('joins leading system messages and turns later ones into user turns when the template wants one first', () => {
    const source = `{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('no') }}{% endif %}[{{ m.role }}:{{ m.content }}]{% endfor %}`;
    expect(render(source, [system('a'), system('b'), user('c'), system('d')])).toBe('[system:a\n\nb][user:c][user:d]');
  });

  it('joins user turns in a row when the template wants them to alternate', () => {
    expect(render(ALTERNATING, [user('a'), user('b'), assistant('c'), user('d')])).toBe(
      '[user:a\n\nb][assistant:c][user:d]',
    );
    const image = { type: 'image_url', image_url: { url: 'x' } };
    const mixed = render(`${ALTERNATING}{{ messages | tojson }}`, [user('a'), user([image])]);
    expect(mixed).toContain('{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}');
  });

  it('answers 400 with the words of a template that refuses', () => {
    const picky = `{% if messages[-1].content == 'no' %}{{ raise_exception('alternate') }}{% endif %}${SHOW}`;
    const error = refusal(() => render(picky, [user('a'), assistant('b'), user('no')]));
    expect(error.code).toBe('invalid_value');
    expect(error.param).toBe('messages');
    expect(error.message).toContain('alternate');
  });
});

describe('chat template, content', () => {
  it('joins text parts for a template that takes text', () => {
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ];
    expect(render(SHOW, [user(parts)])).toBe('[user:a\nb]');
  });

  it('makes parts for a template that takes only parts', () => {
    const source = '{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}';
    expect(render(source, [user('a'), user([{ type: 'text', text: 'b' }])])).toBe('a;b;');
  });

  it('keeps mixed parts, media renamed as templates expect', () => {
    const parts = [{ type: 'text', text: 'a' }, { type: 'image_url', image_url: { url: 'x' } }, { type: 'video_url' }];
    expect(JSON.parse(render('{{ messages[0].content | tojson }}', [user(parts)]))).toEqual([
      { type: 'text', text: 'a' },
      { type: 'image' },
      { type: 'video' },
    ]);
  });

  it.each([
    ['<|user|><|end|>', 'a\n<|image_1|>\n<|image_2|>'],
    ['USER: ASSISTANT:', 'a\n<image>\n<image>'],
  ])('writes images as text for the families that take text only: %s', (marks, expected) => {
    const image = { type: 'image_url', image_url: { url: 'x' } };
    const parts = [{ type: 'text', text: 'a' }, image, image];
    expect(render(`{# ${marks} #}{{ messages[0].content }}`, [user(parts)])).toBe(expected);
  });

  it('treats absent and null content as empty text', () => {
    expect(
      render("{% for m in messages %}{{ m.role + ':' + m.content }};{% endfor %}", [
        user('a'),
        assistant(null),
        { role: 'assistant' },
      ]),
    ).toBe('user:a;assistant:;assistant:;');
  });
});

describe('chat template, tool calls and reasoning', () => {
  const call = (args: unknown): object => ({
    tool_calls: [{ type: 'function', function: { name: 'f', arguments: args } }],
  });
  const ARGUMENTS =
    '{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments }}{% endfor %}{% endfor %}';

  it('parses arguments, and leaves text that is not JSON', () => {
    expect(render(ARGUMENTS, [user('x'), assistant(null, call('{"a": 1}'))])).toBe("{'a': 1}");
    expect(render(ARGUMENTS, [user('x'), assistant(null, call('{"a": '))])).toBe('{"a": ');
    expect(render(ARGUMENTS, [user('x'), assistant(null, call({ b: 2 }))])).toBe("{'b': 2}");
  });

  it('leaves arguments as text for a template that tests for text', () => {
    const source = `${ARGUMENTS}{% if false and x.arguments is string %}{% endif %}`;
    expect(render(source, [user('x'), assistant(null, call('{"a":1}'))])).toBe('{"a":1}');
  });

  it('parses the arguments of a legacy function call always', () => {
    const source = '{{ messages[1].function_call.arguments.a }}{% if false and x.arguments is string %}{% endif %}';
    expect(render(source, [user('x'), assistant(null, { function_call: { name: 'f', arguments: '{"a": 5}' } })])).toBe(
      '5',
    );
  });

  it('puts reasoning before the content unless the template writes it itself', () => {
    const history = [user('x'), assistant('yes', { reasoning_content: 'because' })];
    expect(render(SHOW, history)).toBe('[user:x][assistant:<think>because</think>yes]');
    expect(render('{{ messages[1].content }}|{{ messages[1].reasoning_content }}', history)).toBe('yes|because');
    const segments = [user('x'), assistant('yes', { reasoning_content: ['a', 'b'] })];
    expect(render(SHOW, segments)).toBe('[user:x][assistant:<think>a</think><think>b</think>yes]');
  });
});

describe('chat template, continuing the last message', () => {
  const CHATML = `{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;
  const history = [user('count'), assistant('one, two, ')];

  it('ends the prompt right after its text', () => {
    expect(render(CHATML, history, { continueFinalMessage: true })).toBe(
      '<|user|>count<|end|>\n<|assistant|>one, two,',
    );
  });

  it.each(['<', 'end', 'im', '|', 'user', '<|im_end|>', '{{ x }}', '90257413680924713568'])(
    'finds the end of a text that the template writes, too: %j',
    (word) => {
      for (const text of [word, `so ${word}`, `${word} and ${word}`]) {
        const messages = [user(text), assistant(text), user('again'), assistant(text)];
        const turn = (role: string, content: string): string => `<|${role}|>${content}<|end|>\n`;
        const start = turn('user', text) + turn('assistant', text) + turn('user', 'again');
        expect(render(CHATML, messages, { continueFinalMessage: true })).toBe(`${start}<|assistant|>${text}`);
      }
    },
  );

  it.each([
    ['keeps white space', '[{{ m.content }}]', 'so,  ', '[so,  '],
    ['trims', '[\n {{ m.content | trim }}]', '  so, \n', '[\n so,'],
    ['trims the end alone', '[{{ m.content.rstrip() }}]', ' so, ', '[ so,'],
    ['escapes for HTML', '[{{ m.content | e }}]', 'a < b', '[a &lt; b'],
    ['writes JSON', '[{{ m.content | tojson }}]', 'a "b"\n', '["a \\"b\\"\\n'],
    ['writes in capitals', '[{{ m.content | upper }}]', 'so', '[SO'],
    ['writes it twice', '[{{ m.content }}|{{ m.content }}]', 'so', '[so|so'],
    ['leaves thoughts out', "[{{ m.content.split('</think>')[-1].lstrip() }}]", '<think>a</think> so', '[so'],
  ])('ends the prompt after the message of a template that %s', (_, shown, text, expected) => {
    const source = `{% for m in messages %}${shown}{% endfor %}`;
    expect(render(source, [assistant(text)], { continueFinalMessage: true })).toBe(expected);
  });

  it('continues the last text of a list of parts', () => {
    const source = '{% for m in messages %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}';
    const parts = [
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two' },
    ];
    expect(render(source, [assistant(parts)], { continueFinalMessage: true })).toBe('(one)(two');
  });

  it.each<[string, Messages, Partial<ChatTemplateInput>, string]>([
    ['both flags', history, { addGenerationPrompt: true }, 'cannot both be true'],
    ['a last message from the user', [user('x')], {}, 'from the assistant'],
    ['an empty last message', [user('x'), assistant('')], {}, 'does not show'],
  ])('refuses %s', (_, messages, more, words) => {
    const error = refusal(() => render(CHATML, messages, { continueFinalMessage: true, ...more }));
    expect(error.code).toBe('invalid_value');
    expect(error.param).toBe('continue_final_message');
    expect(error.message).toContain(words);
  });
});

it('leaves the messages of the request as they were', () => {
  const messages = [system('a'), system('b'), user('c'), user('d'), assistant(null, { reasoning_content: 'r' })];
  const before = structuredClone(messages);
  render(ALTERNATING.replace('alternate', 'x'), [...messages, user('e')]);
  expect(messages).toEqual(before);
});
