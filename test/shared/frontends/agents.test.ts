import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type Deployment, startDeployment } from '../../support/dynamo-http/deployments.ts';
import { FIXTURES, type JsonObject } from '../../support/dynamo-http/records.ts';
import { parseFrames } from '../../support/dynamo-http/wire-answer.ts';
import type { WorkerScript } from '../../support/scripted-engine.ts';

/** One request as a coding agent sent it (test/fixtures/agents/README.md). */
interface AgentRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: JsonObject;
}

const recorded = (name: string): readonly AgentRequest[] =>
  readFileSync(new URL(`../../fixtures/agents/${name}.jsonl`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AgentRequest);

const SHELL = { name: 'exec_command', arguments: { cmd: 'echo hi-from-tool' } };
const CODE = 'const r = await tools.exec_command({cmd: "echo hi-from-tool"});\ntext(r.output);';
const BASH = { name: 'Bash', arguments: { command: 'echo hi-from-tool' } };
const calling = (call: object): WorkerScript => ({
  steps: (`I will run it.\n<tool_call>\n${JSON.stringify(call)}\n</tool_call>`.match(/[\s\S]{1,7}/g) ?? []).map(
    (t) => ({
      t,
    }),
  ),
  finish: 'eos',
});
const SCRIPTS = new Map<string, WorkerScript>([
  ['shell', calling(SHELL)],
  ['code', calling({ name: 'functions__exec', arguments: { input: CODE } })],
  ['bash', calling(BASH)],
  ['title', { steps: [{ t: '{"title":"Run echo"}' }], finish: 'eos' }],
  ['said', { steps: [{ t: 'It said ' }, { t: 'hi-from-tool.' }], finish: 'eos' }],
]);
const MODEL = { name: 'agents', kind: 'chat', tool_call_parser: 'hermes', context_length: 100_000 } as const;

/** Somewhere in the prompt. */
const MARKED = /what it said\.|Placeholder for what the client says here\./;

let deployment: Deployment;
beforeAll(async () => {
  deployment = await startDeployment('default', FIXTURES, SCRIPTS, [MODEL]);
});
afterAll(() => deployment.close());

/** Sends a recorded request as it is, but to our model, which then plays `script`. */
async function replay({ method, path, headers, body }: AgentRequest, script?: string): Promise<Response> {
  const { connection: _connection, ...sent } = headers; // of the socket, not of the request
  const text = JSON.stringify({ ...body, model: MODEL.name }).replace(MARKED, `$& [[s:${script}]]`);
  return fetch(`http://127.0.0.1:${deployment.port}${path}`, {
    method,
    headers: sent,
    ...(body === undefined ? {} : { body: text }),
  });
}

async function eventsOf(response: Response): Promise<readonly JsonObject[]> {
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return parseFrames(text).flatMap(({ data }) => (data === undefined || data === '[DONE]' ? [] : [data as JsonObject]));
}

/** What codex lives on: the items that were finished, and the end with its usage. */
async function codexTurn(response: Response): Promise<readonly JsonObject[]> {
  const events = await eventsOf(response);
  expect(events.map(({ sequence_number: at }) => at)).toEqual(events.map((_, at) => at));
  expect(events.at(-1)).toMatchObject({
    type: 'response.completed',
    response: { status: 'completed', usage: { total_tokens: expect.any(Number) } },
  });
  const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item as JsonObject);
  expect((events.at(-1)!.response as JsonObject).output).toEqual(done);
  return done;
}

/** The events of a recorded turn, asked for over the WebSocket that its client asks for first. */
async function overSocket({ path, headers }: AgentRequest, { body }: AgentRequest): Promise<readonly JsonObject[]> {
  const { connection: _connection, upgrade: _upgrade, ...sent } = headers; // the client's own
  const socket = new WebSocket(`ws://127.0.0.1:${deployment.port}${path}`, { headers: sent });
  const events: JsonObject[] = [];
  await new Promise<void>((resolve, reject) => {
    socket
      .on('error', reject)
      .on('open', () => {
        const { stream: _stream, ...fields } = body ?? {};
        socket.send(
          JSON.stringify({ type: 'response.create', ...fields, model: MODEL.name }).replace(MARKED, '$& [[s:shell]]'),
        );
      })
      .on('message', (data) => {
        const event = JSON.parse(String(data)) as JsonObject;
        events.push(event);
        if (event.type === 'response.completed' || event.type === 'error') resolve();
      });
  });
  socket.close();
  return events;
}

const promptOf = (at: number): string => deployment.engine.seen.at(at)?.prompt ?? '';
const said = { type: 'message', content: [{ type: 'output_text', text: 'It said hi-from-tool.' }] };

describe('codex', () => {
  it('is answered over the WebSocket that it asks for first', async () => {
    const [asked, turn] = recorded('codex-tools');
    const events = await overSocket(asked!, turn!);
    expect(events.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { output: [{ type: 'message' }, { type: 'function_call', name: 'exec_command' }] },
    });
  });

  it('holds a tool conversation with functions', async () => {
    const [, first, second] = recorded('codex-tools');
    const opened = await replay(first!, 'shell');
    expect(opened.headers.get('warning')).toContain('web_search');
    expect(await codexTurn(opened)).toMatchObject([
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I will run it.\n' }] },
      {
        type: 'function_call',
        name: 'exec_command',
        arguments: JSON.stringify(SHELL.arguments),
        call_id: expect.any(String),
      },
    ]);
    expect(await codexTurn(await replay(second!, 'said'))).toMatchObject([said]);
    expect(promptOf(-1)).toMatch(/<call>exec_command .*<\/call>.*tool\nChunk ID.*hi-from-tool/s);
  });

  it('holds one with tools in namespaces that an item brings', async () => {
    const [, first, second] = recorded('codex-namespaces');
    expect(await codexTurn(await replay(first!, 'code'))).toMatchObject([
      { type: 'message' },
      { type: 'custom_tool_call', namespace: 'functions', name: 'exec', input: CODE },
    ]);
    expect(promptOf(-1)).toContain('"name": "collaboration__spawn_agent"');
    expect(await codexTurn(await replay(second!, 'said'))).toMatchObject([said]);
    expect(promptOf(-1)).toMatch(/<call>functions__exec .*<\/call>.*tool\nScript completed.*hi-from-tool/s);
  });

  it('compacts its conversation and goes on from it', async () => {
    const [, , compacting, after] = recorded('codex-compaction');
    const [summary, ...more] = await codexTurn(await replay(compacting!, 'said'));
    expect(more).toEqual([]);
    expect(summary).toMatchObject({ type: 'compaction', encrypted_content: expect.any(String) });
    const input = (after!.body!.input as readonly JsonObject[]).map((item) =>
      item.type === 'compaction' ? { ...item, ...summary } : item,
    );
    expect(await codexTurn(await replay({ ...after!, body: { ...after!.body, input } }, 'said'))).toMatchObject([said]);
    expect(promptOf(-1)).toContain('Summary of the conversation so far:\n\nIt said hi-from-tool.');
  });
});

/** What claude lives on: blocks that open, grow and close, the reason why it ended, and the end. */
async function claudeTurn(response: Response): Promise<{ readonly blocks: readonly object[]; readonly stop: unknown }> {
  const events = await eventsOf(response);
  expect(events[0]?.type).toBe('message_start');
  expect(events.at(-1)?.type).toBe('message_stop');
  const blocks: { kind: unknown; name?: unknown; text: string }[] = [];
  for (const { type, index, content_block: block, delta } of events) {
    if (type === 'content_block_start') {
      expect(index).toBe(blocks.length);
      const { type: kind, name } = block as JsonObject;
      blocks.push({ kind, ...(name === undefined ? {} : { name }), text: '' });
    } else if (type === 'content_block_delta') {
      const { text, partial_json: json } = delta as JsonObject;
      blocks[Number(index)]!.text += text ?? json ?? ''; // it was opened before
    }
  }
  const ending = events.find(({ type }) => type === 'message_delta');
  expect(ending?.usage).toMatchObject({ input_tokens: expect.any(Number), output_tokens: expect.any(Number) });
  return { blocks, stop: (ending!.delta as JsonObject).stop_reason };
}

describe('claude', () => {
  it('asks for a title by a schema', async () => {
    expect(await claudeTurn(await replay(recorded('claude')[0]!, 'title'))).toEqual({
      blocks: [{ kind: 'text', text: '{"title":"Run echo"}' }],
      stop: 'end_turn',
    });
    expect(deployment.engine.seen.at(-1)?.request.sampling.guided_decoding).toMatchObject({
      json: { required: ['title'] },
    });
  });

  it('holds a tool conversation', async () => {
    const [, first, second] = recorded('claude');
    expect(await claudeTurn(await replay(first!, 'bash'))).toEqual({
      blocks: [
        { kind: 'text', text: 'I will run it.\n' },
        { kind: 'tool_use', name: 'Bash', text: JSON.stringify(BASH.arguments) },
      ],
      stop: 'tool_use',
    });
    expect(promptOf(-1)).not.toContain('x-anthropic-billing-header');
    expect(await claudeTurn(await replay(second!, 'said'))).toEqual({
      blocks: [{ kind: 'text', text: 'It said hi-from-tool.' }],
      stop: 'end_turn',
    });
    expect(promptOf(-1)).toMatch(/<call>Bash .*<\/call>.*tool\nhi-from-tool/s);
  });
});
