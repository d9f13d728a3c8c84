// What reading tool calls and reasoning costs a token. `node bench/parsers.mjs [--json]`. Target: 1.5 us a token for
// both stages together (issue of the HTTP front). A token is a piece of about four characters, as tokenizers cut prose.
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

const TOKENS = 2_000;
const ROUNDS = 30;
const TARGET_US = 1.5;
const TOOLS = [
  {
    type: 'function',
    function: { name: 'write_file', parameters: { type: 'object', properties: { body: { type: 'string' } } } },
  },
];
const WORDS = 'The quick brown fox: 3 < 4, "quoted" text, and (more) of it; '.repeat(400);
/** Formats whose calls are shown whole: within the text that is measured nothing comes out. */
const HELD = new Set(['glm47', 'qwen25', 'minimax_m2', 'harmony']);
const BODY = WORDS.replaceAll('"', '\\"').replaceAll('<', 'lt');

const folder = await mkdtemp(join(process.cwd(), 'node_modules', '.bench-parsers-'));
try {
  const outfile = join(folder, 'parsers.mjs');
  const contents = `export * from './shared/parsers/index.ts';
    export { systemRandom } from './shared/clock/index.ts';`;
  const stdin = { contents, resolveDir: process.cwd(), loader: 'ts' };
  await build({ stdin, outfile, bundle: true, platform: 'node', format: 'esm', target: 'node20', logLevel: 'error' });
  const parsers = await import(outfile);
  const rows = cases().map((each) => ({ ...each, us: measure(parsers, each) }));
  if (process.argv.includes('--json')) console.log(JSON.stringify(rows.map(({ text: _text, ...row }) => row)));
  else console.table(rows.map(({ what, tool, us }) => ({ what, tool, 'us/token': us, 'in target': us <= TARGET_US })));
} finally {
  await rm(folder, { recursive: true, force: true });
}

function cases() {
  const json = `<tool_call>\n{"name": "write_file", "arguments": {"body": "${BODY}"}}\n</tool_call>`;
  const xml = `<tool_call>\n<function=write_file>\n<parameter=body>\n${BODY}\n</parameter>\n</function>\n</tool_call>`;
  const glm = `<tool_call>write_file<arg_key>body</arg_key><arg_value>${BODY}</arg_value></tool_call>`;
  const dsml = `<｜DSML｜tool_calls>\n<｜DSML｜invoke name="write_file">\n<｜DSML｜parameter name="body" string="true">${BODY}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>`;
  const minimax = `<minimax:tool_call><invoke name="write_file"><parameter name="body">${BODY}</parameter></invoke></minimax:tool_call>`;
  const kimi = `<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>{"body": "${BODY}"}<|tool_call_end|><|tool_calls_section_end|>`;
  const harmony = `<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{"body": "${BODY}"}<|call|>`;
  const cohere = `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "write_file", "parameters": {"body": "${BODY}"}}]<|END_ACTION|>`;
  const hunyuan = `<tool_calls><tool_call>write_file<tool_sep><arg_key>body</arg_key><arg_value>${BODY}</arg_value></tool_call></tool_calls>`;
  const muse = ` to=write_file<|message|><atem:invoke name="write_file"><atem:parameter name="body">${BODY}</atem:parameter></atem:invoke><|eot|>`;
  return [
    { what: 'prose', tool: 'hermes', text: WORDS },
    { what: 'prose behind reasoning', tool: 'hermes', reasoning: 'qwen3', text: `<think>hm</think>${WORDS}` },
    { what: 'all reasoning', tool: 'hermes', reasoning: 'qwen3', text: `<think>${WORDS}` },
    { what: 'prose', tool: 'deepseek_v4', reasoning: 'deepseek_v4', text: WORDS },
    { what: 'prose', tool: 'glm47', reasoning: 'glm45', text: WORDS },
    { what: 'prose', tool: 'pythonic', text: WORDS },
    { what: 'streamed call', tool: 'hermes', reasoning: 'qwen3', text: json },
    { what: 'streamed call', tool: 'qwen3_coder', reasoning: 'qwen3', text: xml },
    { what: 'held call', tool: 'glm47', reasoning: 'glm45', text: glm },
    { what: 'held call', tool: 'qwen25', reasoning: 'qwen3', text: json },
    { what: 'streamed call', tool: 'deepseek_v4', reasoning: 'deepseek_v4', text: dsml },
    { what: 'streamed call', tool: 'kimi_k2', reasoning: 'kimi_k25', text: kimi },
    { what: 'streamed call', tool: 'cohere_command4', reasoning: 'cohere_command4', text: cohere },
    { what: 'streamed call', tool: 'hy_v3', reasoning: 'hy_v3', text: hunyuan },
    { what: 'streamed call', tool: 'muse_glimmer', reasoning: 'muse_glimmer', text: muse },
    { what: 'prose', tool: 'hy_v3', reasoning: 'hy_v3', text: WORDS },
    { what: 'held call', tool: 'minimax_m2', reasoning: 'minimax_m2', text: minimax },
    { what: 'held call', tool: 'harmony', reasoning: 'gpt_oss', text: harmony },
  ];
}

/** The fastest round, in microseconds a token. */
function measure(parsers, { tool, reasoning, text }) {
  const pieces = Array.from({ length: TOKENS }, (_, at) => text.slice(at * 4, at * 4 + 4)).filter(
    (piece) => piece !== '',
  );
  let units = 0;
  const sink = {
    content: (piece) => {
      units += piece.length;
    },
    callStart: () => {},
    callArguments: (_index, fragment) => {
      units += fragment.length;
    },
  };
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const calls = parsers.createToolCallParser(tool, { tools: TOOLS, random: parsers.systemRandom });
    const out = {
      reasoning: (piece) => {
        units += piece.length;
      },
      content: (piece) => calls.push(piece, sink),
    };
    const plan = reasoning && parsers.planReasoning(parsers.findReasoningFormat(reasoning).format, { promptText: '' });
    const thoughts = plan && parsers.createReasoningParser(plan);
    const started = performance.now();
    for (const piece of pieces) {
      if (thoughts === undefined) calls.push(piece, sink);
      else thoughts.push(piece, out);
    }
    best = Math.min(best, performance.now() - started);
  }
  if (units === 0 && !HELD.has(tool)) throw new Error('nothing came out');
  return Math.round((best * 1e6) / pieces.length) / 1e3;
}
