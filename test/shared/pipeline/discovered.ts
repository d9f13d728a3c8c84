import { seededRandom } from '../../../shared/clock/index.ts';
import type { EndpointRecord, ModelCard, ModelRecord } from '../../../shared/discovery/index.ts';
import { MemoryDiscovery, MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import {
  ColdStartQueue,
  createPipeline,
  FollowedPools,
  LiveModelDirectory,
  ModelStore,
  RoutingExplainer,
  type Worker,
  workerSetsOf,
} from '../../../shared/pipeline/index.ts';
import type { GenerationRequest } from '../../../shared/protocol/index.ts';
import type { RouteRequest } from '../../../shared/router/index.ts';
import { type ExplanationRecord, Inhibition, SimpleRouter } from '../../../shared/scheduler/index.ts';
import { type LoadedModel, PromptEncoder } from '../../../shared/tokens/index.ts';
import { waitUntil } from '../../support/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import {
  HandPlane,
  idleMeter,
  letterModel,
  letterTokenizer,
  RecordingSink,
  request,
  type SeenCall,
} from './fixtures.ts';

/** Model files of a second generation: every letter has another token. */
const shifted: LoadedModel = {
  ...letterModel,
  tokenizer: { ...letterTokenizer, encode: (text) => letterTokenizer.encode(text).map((id) => 27 - id) },
};
const filesWith = (checksum: string) => ({ 'tokenizer.json': { path: '/m', checksum, size: 1 } });
/** Card of a worker of the second generation. */
export const SECOND: Partial<ModelCard> = { files: filesWith('sha256:22') };

/** Returns the endpoint of a worker. @param address where it is reached; as the id by default */
export function endpoint(id: string, namespace = 'prod-1', address = id): EndpointRecord {
  const scope = { namespace, component: 'backend', endpoint: 'generate', instance_id: id };
  return { type: 'Endpoint', ...scope, transport: { memory: address } };
}

const UNDECIDED: ExplanationRecord = {
  ...{ request_id: 'r', cost_model: 'stator', prompt_tokens: 0, blocks: 0, temperature: 0, waited_ms: 0 },
  ...{ chosen: null, failure: 'no worker', candidates: [] },
};

/**
 * A pipeline before workers that it finds in discovery. The test is the other side of its request plane.
 * @param stallMs silence after which a worker is in doubt; 0 = never
 * @param holdsMs longest wait of a request for a worker; 0 = none
 */
export async function openDiscovered({ stallMs = 0, holdsMs = 0 } = {}) {
  const clock = new VirtualClock();
  const hub = new MemoryHub(clock);
  const workers = new MemoryDiscovery({ hub, clock });
  const discovery = new MemoryDiscovery({ hub, clock });
  const inhibition = new Inhibition(clock, 5000);
  const models = new LiveModelDirectory({
    discovery,
    clock,
    namespacePrefix: 'prod',
    onWorkerAdded: (id) => inhibition.forget(id),
  });
  const plane = new HandPlane();
  const router = new SimpleRouter<Worker>({ mode: 'round-robin', random: seededRandom(1), inhibition });
  const pools = new FollowedPools(router);
  models.follow(() => pools.follow(models.list().flatMap(workerSetsOf)));
  await models.start();
  const open = async ({ card }: { readonly card: ModelCard }) =>
    card.files['tokenizer.json']?.checksum === 'sha256:22' ? shifted : letterModel;
  const store = new ModelStore({ open, clock, onFailure: () => {} });
  const random = seededRandom(3);
  const parts = { models, store, router, inhibition, plane, clock, random };
  const unheard = { holding() {}, wanted() {}, held() {} };
  const hold = holdsMs === 0 ? undefined : new ColdStartQueue({ clock, timeoutMs: holdsMs, observer: unheard });
  if (hold !== undefined) models.follow(() => hold.look());
  const pipeline = createPipeline({ ...parts, stallMs, hold, observer: {} });
  const change = async (changed: Promise<void>): Promise<void> => {
    await changed;
    await Promise.resolve(); // changes of one turn are taken in together at its end
  };
  const explained: RouteRequest[] = [];
  const explainer = new RoutingExplainer({
    models,
    store,
    encoder: new PromptEncoder({ clock }),
    clock,
    source: {
      explained: async () => undefined,
      explain: async (asked) => {
        explained.push(asked);
        return { ...UNDECIDED, prompt_tokens: asked.tokenIds?.length ?? 0 };
      },
    },
  });
  return {
    clock,
    plane,
    pipeline,
    /** Explains where a request would go; the router is one that has no worker. */
    explain: (more: Partial<GenerationRequest>) => explainer.explain(request(more)),
    /** Questions to the router for such explanations. */
    explained,
    /** Returns the number of requests that wait for a worker. */
    held: () => hold?.count ?? 0,
    put: (record: EndpointRecord) => change(workers.put(record)),
    remove: (record: EndpointRecord) => change(workers.remove(record)),
    async register(id: string, namespace = 'prod-1', more: Partial<ModelCard> = {}): Promise<void> {
      const card: ModelCard = {
        display_name: 'letters',
        slug: 'letters',
        files: filesWith('sha256:11'),
        kv_cache_block_size: 16,
        model_type: ['Chat', 'Completions'],
        model_input: 'Tokens',
        worker_type: 'aggregated',
        needs: [],
        aliases: [],
        runtime_config: { context_length: 100 },
        ...more,
      };
      const { transport: _, ...address } = endpoint(id, namespace);
      await workers.put(endpoint(id, namespace));
      await change(workers.put({ ...address, type: 'Model', card } satisfies ModelRecord));
    },
    /** Sends a request, and resolves with its first call once a worker has it. */
    async ask(more: Partial<GenerationRequest> = {}): Promise<{ call: SeenCall; sink: RecordingSink }> {
      const sink = new RecordingSink();
      const calls = plane.calls.length;
      pipeline.generate(request(more), sink, { signal: new AbortController().signal, meter: idleMeter });
      await waitUntil(() => plane.calls.length > calls || sink.failure !== undefined, { what: 'the call' });
      if (sink.failure !== undefined) throw sink.failure;
      return { call: plane.calls[calls] as SeenCall, sink };
    },
    async close(): Promise<void> {
      pipeline.close();
      models.close();
      await Promise.all([workers.close(), discovery.close()]);
    },
  };
}
