/** A call as a test wants it made; `args` holds strings, whole numbers and lists of them. */
export interface WantedCall {
  readonly name: string;
  readonly args: Readonly<Record<string, WantedValue>>;
}

export type WantedValue = string | number | readonly (string | number)[];

/** Writes calls as a model of the family does. Naive on purpose: templates, with no thought for what reads them. */
export type CallText = (calls: readonly WantedCall[]) => string;

const json = JSON.stringify;
const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
const plain = (value: WantedValue): string => (typeof value === 'string' ? value : json(value));
const xml = (value: WantedValue): string => escapeXml(plain(value));
const members = (call: WantedCall, write: (key: string, value: WantedValue) => string): string =>
  Object.entries(call.args)
    .map(([key, value]) => write(key, value))
    .join('');
const each = (calls: readonly WantedCall[], write: (call: WantedCall, index: number) => string, between = ''): string =>
  calls.map(write).join(between);
const object = (call: WantedCall, key = 'arguments', indent = 0): string =>
  json({ name: call.name, [key]: call.args }, null, indent);
const list = (calls: readonly WantedCall[]): string => `[${each(calls, (call) => object(call), ', ')}]`;

const dsml =
  (block: string, prefix = '｜DSML｜'): CallText =>
  (calls) => {
    const tag = `<${prefix}`;
    const end = `</${prefix}`;
    const parameter = (key: string, value: WantedValue): string =>
      `${tag}parameter name="${key}" string="${typeof value === 'string'}">${plain(value)}${end}parameter>\n`;
    const invoke = (call: WantedCall): string =>
      `${tag}invoke name="${call.name}">\n${members(call, parameter)}${end}invoke>\n`;
    return `${tag}${block}>\n${each(calls, invoke)}${end}${block}>`;
  };

const xmlCalls =
  (tag: string): CallText =>
  (calls) =>
    each(
      calls,
      (call) =>
        `<${tag}>\n<function=${call.name}>\n${members(call, (key, value) => `<parameter=${key}>\n${xml(value)}\n</parameter>\n`)}</function>\n</${tag}>`,
      '\n',
    );

const step3: CallText = (calls) => {
  const parameter = (key: string, value: WantedValue): string =>
    `<steptml:parameter name="${key}">${xml(value)}</steptml:parameter>`;
  const invoke = (call: WantedCall): string =>
    `<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="${call.name}">${members(call, parameter)}</steptml:invoke><｜tool_call_end｜>`;
  return `<｜tool_calls_begin｜>\n${each(calls, invoke, '\n')}\n<｜tool_calls_end｜>`;
};

const glm: CallText = (calls) =>
  each(
    calls,
    (call) =>
      `<tool_call>${call.name}\n${members(call, (key, value) => `<arg_key>${key}</arg_key>\n<arg_value>${xml(value)}</arg_value>\n`)}</tool_call>`,
    '\n',
  );

const poolside: CallText = (calls) =>
  each(
    calls,
    (call) =>
      `<tool_call>${call.name}\n${members(call, (key, value) => `<arg_key>${key}</arg_key><arg_value>${plain(value)}</arg_value>`)}</tool_call>`,
    '\n',
  );

const minimaxM2: CallText = (calls) => {
  const parameter = (key: string, value: WantedValue): string => `<parameter name="${key}">${xml(value)}</parameter>\n`;
  return `<minimax:tool_call>\n${each(calls, (call) => `<invoke name="${call.name}">\n${members(call, parameter)}</invoke>\n`)}</minimax:tool_call>`;
};

const minimaxM3: CallText = (calls) => {
  const n = ']<]minimax[>[';
  const items = (value: WantedValue): string =>
    typeof value === 'object' ? value.map((item) => `${n}<item>${xml(item)}${n}</item>`).join('') : xml(value);
  const parameter = (key: string, value: WantedValue): string => `${n}<${key}>${items(value)}${n}</${key}>`;
  const invoke = (call: WantedCall): string =>
    `${n}<invoke name="${call.name}">${members(call, parameter)}${n}</invoke>\n`;
  return `${n}<tool_call>\n${each(calls, invoke)}${n}</tool_call>`;
};

const kimiK3: CallText = (calls) => {
  const argument = (key: string, value: WantedValue): string =>
    `<|open|>argument key="${key}" type="${typeof value}"<|sep|>${plain(value)}<|close|>argument<|sep|>`;
  const write = (call: WantedCall, index: number): string =>
    `<|open|>call tool="${call.name}" index="${index + 1}"<|sep|>${members(call, argument)}<|close|>call<|sep|>`;
  return `<|open|>tools<|sep|>${each(calls, write)}<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>`;
};

const gemma =
  (start: string, end: string, quote: string): CallText =>
  (calls) => {
    const value = (wanted: WantedValue): string => {
      if (typeof wanted === 'object') return `[${wanted.map(value).join(',')}]`;
      return typeof wanted === 'string' ? `${quote}${wanted}${quote}` : json(wanted);
    };
    const body = (call: WantedCall): string =>
      Object.entries(call.args)
        .map(([key, one]) => `${key}:${value(one)}`)
        .join(',');
    return each(calls, (call) => `${start}call:${call.name}{${body(call)}}${end}`);
  };

/** Calls of Hunyuan 3 with the suffix of the published models. */
const hunyuan: CallText = (calls) => {
  const tag = (name: string, text: string): string => `<${name}:opensource>${text}</${name}:opensource>`;
  const argument = (key: string, value: WantedValue): string =>
    `${tag('arg_key', key)}\n${tag('arg_value', plain(value))}\n`;
  const call = (one: WantedCall): string =>
    tag('tool_call', `${one.name}<tool_sep:opensource>\n${members(one, argument)}`);
  return tag('tool_calls', `\n${each(calls, call, '\n')}\n`);
};

const solarOpen2: CallText = (calls) => {
  const argument = (key: string, value: WantedValue): string =>
    `<|tool_arg:start|>${key}<|tool_arg:value|>${plain(value)}<|tool_arg:end|>\n`;
  return each(calls, (call) => `<|tool_call:start|>${call.name}\n${members(call, argument)}<|tool_call:end|>`, '\n');
};

const minicpm5: CallText = (calls) => {
  const parameter = (key: string, value: WantedValue): string =>
    `<param name="${key}">${typeof value === 'string' ? `<![CDATA[${value}]]>` : json(value)}</param>`;
  return each(calls, (call) => `<function name="${call.name}">${members(call, parameter)}</function>`, '\n');
};

const dots: CallText = (calls) => {
  const parameter = (key: string, value: WantedValue): string => `<parameter name="${key}">${xml(value)}</parameter>\n`;
  const invoke = (call: WantedCall): string => `<invoke name="${call.name}">\n${members(call, parameter)}</invoke>\n`;
  return `<dots_function_call>\n${each(calls, invoke)}</dots_function_call>`;
};

const muse: CallText = (calls) => {
  const parameter = (key: string, value: WantedValue): string =>
    `<atem:parameter name="${key}">${plain(value)}</atem:parameter>\n`;
  const body = (call: WantedCall): string =>
    `<atem:function_calls>\n<atem:invoke name="${call.name}">\n${members(call, parameter)}</atem:invoke>\n</atem:function_calls>`;
  const message = (call: WantedCall): string => `<|start|>assistant to=${call.name}<|message|>${body(call)}<|eom|>`;
  return each(calls, message);
};

const plamo3: CallText = (calls) => {
  const part = (name: string, text: string): string =>
    `<|plamo:begin_${name}:plamo|>${text}<|plamo:end_${name}:plamo|>`;
  const request = (call: WantedCall): string =>
    part(
      'tool_request',
      part('tool_name', call.name) + part('tool_arguments', `<|plamo:constrain|>json<|plamo:msg|>${json(call.args)}`),
    );
  return part('tool_requests', each(calls, request));
};

const cohere: CallText = (calls) => {
  const action = (call: WantedCall, index: number): string =>
    `    {"tool_call_id": "${index}", "tool_name": "${call.name}", "parameters": ${json(call.args)}}`;
  return `<|START_ACTION|>[\n${each(calls, action, ',\n')}\n]<|END_ACTION|>`;
};

const pythonCall = (call: WantedCall): string => {
  const members = Object.entries(call.args).map(([key, one]) => `${key}=${json(one)}`);
  return `${call.name}(${members.join(', ')})`;
};
const pythonic: CallText = (calls) => `[${each(calls, pythonCall, ', ')}]`;

const deepseekCalls = (body: string): string => `<｜tool▁calls▁begin｜>${body}<｜tool▁calls▁end｜>`;

export const CALL_TEXTS: Readonly<Record<string, CallText>> = {
  hermes: (calls) => each(calls, (call) => `<tool_call>\n${object(call, 'arguments', 2)}\n</tool_call>`, '\n'),
  qwen25: (calls) => each(calls, (call) => `<tool_call>\n${object(call)}\n</tool_call>`, '\n'),
  nemotron_deci: (calls) => `<TOOLCALL>${list(calls)}</TOOLCALL>`,
  llama3_json: (calls) => `<|python_tag|>${each(calls, (call) => object(call, 'parameters'), '; ')}`,
  mistral: (calls) => `[TOOL_CALLS]${list(calls)}`,
  phi4: (calls) => `functools${list(calls)}`,
  jamba: (calls) => `<tool_calls>${list(calls)}</tool_calls>`,
  default: (calls) => `<TOOLCALL>${list(calls)}</TOOLCALL>`,
  deepseek_v3: (calls) =>
    deepseekCalls(
      each(
        calls,
        (call) =>
          `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${call.name}\n\`\`\`json\n${json(call.args)}\n\`\`\`<｜tool▁call▁end｜>`,
        '\n',
      ),
    ),
  deepseek_v3_1: (calls) =>
    deepseekCalls(
      each(calls, (call) => `<｜tool▁call▁begin｜>${call.name}<｜tool▁sep｜>${json(call.args)}<｜tool▁call▁end｜>`),
    ),
  deepseek_v3_2: dsml('function_calls'),
  deepseek_v4: dsml('tool_calls'),
  deepseek_v41: dsml('calls', '｜DSML｜ '),
  gigachat35: dsml('tool_calls', '｜GCML｜'),
  gigachat3: (calls) => each(calls, (call) => `<|message_sep|>\n\nfunction call<|role_sep|>\n${object(call)}`),
  cohere_command4: cohere,
  apertus: (calls) =>
    `<|tools_prefix|>[${each(calls, (call) => json({ [call.name]: call.args }), ', ')}]<|tools_suffix|>`,
  hy_v3: hunyuan,
  solar_open2: solarOpen2,
  minicpm5,
  muse_glimmer: muse,
  plamo3,
  dots,
  xlam: (calls) => `<tool_call>${list(calls)}</tool_call>`,
  granite_20b_fc: (calls) => each(calls, (call) => `<function_call> ${object(call)}`, '\n'),
  qwen3_coder: xmlCalls('tool_call'),
  seed_oss: xmlCalls('seed:tool_call'),
  step3,
  minimax_m2: minimaxM2,
  minimax_m3: minimaxM3,
  glm47: glm,
  poolside_v1: poolside,
  kimi_k2: (calls) =>
    `<|tool_calls_section_begin|>${each(
      calls,
      (call, index) =>
        `<|tool_call_begin|>functions.${call.name}:${index}<|tool_call_argument_begin|>${json(call.args, null, 1)}<|tool_call_end|>`,
    )}<|tool_calls_section_end|>`,
  kimi_k3: kimiK3,
  gemma4: gemma('<|tool_call>', '<tool_call|>', '<|"|>'),
  functiongemma: gemma('<start_function_call>', '<end_function_call>', '<escape>'),
  harmony: (calls) =>
    each(
      calls,
      (call) =>
        `<|start|>assistant<|channel|>commentary to=functions.${call.name} <|constrain|>json<|message|>${json(call.args)}<|call|>`,
    ),
  pythonic,
  lfm2: (calls) => `<|tool_call_start|>${pythonic(calls)}<|tool_call_end|>`,
  olmo3: (calls) => `<function_calls>\n${each(calls, pythonCall, '\n')}\n</function_calls>`,
  granite: (calls) => `<|tool_call|>${list(calls)}`,
  internlm: (calls) =>
    each(calls, (call) => `<|action_start|><|plugin|>\n${object(call, 'parameters')}<|action_end|>`, '\n'),
  longcat: (calls) => each(calls, (call) => `<longcat_tool_call>\n${object(call)}\n</longcat_tool_call>`, '\n'),
  inkling: (calls) =>
    each(
      calls,
      (call) => `<|message_model|>${call.name}<|content_invoke_tool_json|>${object(call, 'args')}<|end_message|>`,
    ),
};
