import type { EngineRequest, OutputSink } from '../../../shared/protocol/index.ts';
import type { ScriptedEngine } from '../scripted-engine.ts';

/** Frames of the recorded workers: the bytes FF D8 of a JPEG, and a name. */
const FRAMES = ['frame0', 'frame1'].map((name) => Buffer.concat([Buffer.of(0xff, 0xd8), Buffer.from(name)]));

/**
 * Plays the answers of the recorded workers of embedding, image and video models (test/fixtures/dynamo-http/README.md).
 */
export function playMedia(
  request: EngineRequest,
  kind: 'emb' | 'img' | 'vid',
  sink: OutputSink,
  engine: ScriptedEngine,
): void {
  engine.seen.push({ request, prompt: '', wasCancelled: false });
  switch (kind) {
    case 'emb': {
      const count = request.input.kind === 'tokens' ? request.input.tokenIds.length : 0;
      const vector = Buffer.from(Float32Array.of(1, -2, count).buffer).toString('base64');
      sink.output({ body: { embeddings: [vector], prompt_tokens: count, total_tokens: count } });
      break;
    }
    case 'img':
      sink.output({ body: { created: nowS(), data: [{ url: 'https://example.test/i.png' }] } });
      break;
    case 'vid':
      for (const frame of FRAMES) sink.output({ body: videoOf(frame) });
      break;
  }
  sink.end();
}

function videoOf(frame: Buffer): object {
  return {
    id: 'video_1',
    object: 'video',
    model: 'worker',
    status: 'completed',
    progress: 100,
    created: nowS(),
    data: [{ output_format: 'jpeg', b64_json: frame.toString('base64') }],
  };
}

/** Unix seconds. */
const nowS = (): number => Math.floor(Date.now() / 1000);
