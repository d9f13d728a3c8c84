import { expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import {
  createPipeline,
  FollowedPools,
  LiveModelDirectory,
  ModelStore,
  type PipelineObserver,
  type Worker,
  workerSetsOf,
} from '../../../shared/pipeline/index.ts';
import { Inhibition, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { compileChatTemplate } from '../../../shared/tokens/template/chat-template.ts';
import { endpointAt, modelAt } from '../../contract/discovery/records.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { HandPlane, idleMeter, letterModel, RecordingSink, request } from './fixtures.ts';

const PATH = 'ns/backend/generate/a';
const template = compileChatTemplate("{% for m in messages %}{{ m.role[0] }}{{ m.content or '' }}z{% endfor %}");

/** Opens a pipeline in front of one worker, which the test plays. */
async function open(observer: PipelineObserver) {
  const clock = new VirtualClock();
  const discovery = new MemoryDiscovery({ hub: new MemoryHub() });
  await discovery.put(endpointAt(PATH));
  await discovery.put(modelAt(PATH));
  const inhibition = new Inhibition(clock, 5000);
  const router = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition });
  const pools = new FollowedPools(router);
  const models = new LiveModelDirectory({ discovery, clock });
  models.follow(() => pools.follow(models.list().flatMap(workerSetsOf)));
  await models.start();
  const loaded = { ...letterModel, chatTemplate: template };
  const store = new ModelStore({ open: async () => loaded, clock, onFailure: () => {} });
  const plane = new HandPlane();
  const random = seededRandom(2);
  return {
    clock,
    plane,
    pipeline: createPipeline({ models, store, router, inhibition, plane, clock, random, observer }),
  };
}

it('the prompt of a next turn is computed ahead for a request whose steps are timed, too', async () => {
  const seen: string[] = [];
  const { clock, plane, pipeline } = await open({
    timed: ({ outcome }) => void seen.push(`timed ${outcome}`),
    speculated: (_model, outcome) => void seen.push(`ahead ${outcome}`),
  });
  const asked = request({
    model: 'Tiny/Model-1.0',
    endpoint: 'chat_completions',
    speculatesPrefill: true,
    prompt: { kind: 'chat', messages: [{ role: 'user', content: 'ab' }] },
  });
  const sink = new RecordingSink();
  pipeline.generate(asked, sink, { signal: new AbortController().signal, meter: idleMeter });
  for (const [at, id] of [3, 4].entries()) {
    const { sink: answer } = await plane.seen(at + 1);
    answer.tokens(0, [id], 0, 1);
    answer.output({ finish_reason: 'stop' });
    answer.end();
    await clock.advance(0);
  }
  expect(sink.shown).toBe('c');
  expect(seen).toEqual(['timed end', 'ahead done']);
});
