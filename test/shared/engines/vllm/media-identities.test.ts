import { describe, expect, it } from 'vitest';
import type { Engine } from '../../../../shared/engines/index.ts';
import { createIdentifyingEngine, keepsIdentities } from '../../../../shared/engines/vllm/media-identities.ts';
import type { EngineOutput, EngineRequest } from '../../../../shared/protocol/index.ts';
import { mediaIdentity } from '../../../../shared/tokens/index.ts';
import { chatRequest, RecordingSink, tokenRequest } from '../recording-sink.ts';

const CAT = 'data:image/png;base64,Y2F0';
const IMAGE = { type: 'image_url', image_url: { url: CAT } };
const SOUND = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } };
const TEXT = { type: 'text', text: 'What is this?' };
const chatOf = (...content: readonly object[]) => ({ model: 'm', messages: [{ role: 'user', content }] });

/** What the engine got, and what came back of `outputs`. */
async function ask(
  body: Readonly<Record<string, unknown>>,
  fields: Partial<EngineRequest> = {},
  outputs: readonly EngineOutput[] = [{}],
) {
  const asked: EngineRequest[] = [];
  const generate: Engine['generate'] = (request, sink) => {
    asked.push(request);
    for (const output of outputs) sink.output(output);
    sink.end();
  };
  const sink = new RecordingSink();
  const engine = createIdentifyingEngine({ kind: 'vllm', generate } as Engine);
  engine.generate({ ...chatRequest(body), ...fields }, sink, new AbortController().signal);
  await sink.closed;
  const [got] = asked;
  return { body: got?.input.kind === 'text' ? got.input.body : undefined, told: sink.outputs };
}

describe('a vLLM whose media have identities', () => {
  it("gets an identity for each inline medium, in place of the client's", async () => {
    const named = { ...IMAGE, uuid: 'of another picture' };
    const { body } = await ask(chatOf(TEXT, named, SOUND));
    expect(body).toEqual(chatOf(TEXT, { ...IMAGE, uuid: mediaIdentity(CAT) }, SOUND));
    const reading = { image: { size: 1 } };
    const read = await ask({ ...chatOf(IMAGE), media_io_kwargs: reading });
    expect(read.body).toMatchObject(chatOf({ uuid: mediaIdentity(CAT, reading) }));
    expect(mediaIdentity(CAT, reading)).not.toBe(mediaIdentity(CAT));
    expect((await ask({ model: 'm', messages: 'none' })).body).toEqual({ model: 'm', messages: 'none' });
  });

  it('tells a frontend that asks what the media are and what the prompt became, and the client nothing of it', async () => {
    const chunks = [
      { body: { choices: [{ index: 0, delta: { content: '' } }], prompt_token_ids: [1, 2, 3] } },
      { body: { choices: [{ index: 0, delta: { content: 'a cat' }, token_ids: [4] }] } },
    ];
    const asks = { mmRoutingInfo: { wants_tokens: true } };
    const { body, told } = await ask(chatOf(SOUND, IMAGE), asks, chunks);
    expect(body).toMatchObject({ return_token_ids: true });
    expect(told).toEqual([
      {
        body: { choices: [{ index: 0, delta: { content: '' } }] },
        prompt_media: { ids: ['', mediaIdentity(CAT)], token_ids: [1, 2, 3] },
      },
      { body: { choices: [{ index: 0, delta: { content: 'a cat' } }] } },
    ]);
    const own = await ask({ ...chatOf(IMAGE), return_token_ids: true }, asks, chunks);
    expect(own.told.map((output) => output.body)).toEqual(chunks.map((output) => output.body));
    const known = await ask(chatOf(IMAGE), { mmRoutingInfo: { wants_tokens: false } }, [{ body: {} }]);
    expect([known.body, known.told]).toEqual([
      chatOf({ ...IMAGE, uuid: mediaIdentity(CAT) }),
      [{ body: {}, prompt_media: { ids: [mediaIdentity(CAT)] } }],
    ]);
    expect((await ask(chatOf(IMAGE), {}, chunks)).told).toEqual(chunks);
  });

  it('tells none where the engine makes others of them', async () => {
    expect(keepsIdentities(['--max-num-seqs', '4'])).toBe(true);
    for (const flag of ['--media-io-kwargs', '--mm-processor-kwargs={"a":1}', '--mm_processor_kwargs'])
      expect(keepsIdentities(['--seed=1', flag, '{}'])).toBe(false);
    const outputs: EngineOutput[] = [];
    const generate: Engine['generate'] = (_request, sink) => sink.output({ body: {} });
    const engine = createIdentifyingEngine({ kind: 'vllm', generate } as Engine, false);
    const sink = Object.assign(new RecordingSink(), { output: (output: EngineOutput) => void outputs.push(output) });
    const request = { ...chatRequest(chatOf(IMAGE)), mmRoutingInfo: {} };
    engine.generate(request, sink, new AbortController().signal);
    expect(outputs).toEqual([{ body: {}, prompt_media: { ids: [''] } }]);
  });

  it('takes prompts in tokens as they come', async () => {
    const asked: EngineRequest[] = [];
    const generate: Engine['generate'] = (request) => void asked.push(request);
    const engine = createIdentifyingEngine({ kind: 'vllm', generate } as Engine);
    const request = tokenRequest([1, 2]);
    engine.generate(request, new RecordingSink(), new AbortController().signal);
    expect(asked).toEqual([request]);
  });
});
