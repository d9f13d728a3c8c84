import type { Settings } from '../../config/index.ts';
import type { EngineDialect } from './dialect.ts';

type KindSettings = Pick<Settings<'worker'>, 'embeddingWorker' | 'embeddingFrontendTokenization'>;

/** Whether the texts to embed go to the engine as they came: it tokenizes them, many at once. */
export function embedsText({ embeddingWorker, embeddingFrontendTokenization }: KindSettings): boolean {
  return embeddingWorker && !embeddingFrontendTokenization;
}

const REMEDY = {
  vllm: 'start it with --runner pooling',
  sglang: 'start it with --is-embedding',
  trtllm: 'use --engine vllm or sglang',
} as const satisfies Record<EngineDialect['kind'], string>;

/** `dialect`, of whose server a worker of a kind of its own asks what that kind needs. */
export function forKind({ embeddingWorker }: KindSettings, dialect: EngineDialect): EngineDialect {
  if (!embeddingWorker) return dialect;
  return withProbe(dialect, async (server, told) => {
    const probed = await dialect.probe(server, told);
    if (!probed.info.modelType.includes('Embedding')) {
      throw new Error(`the engine serves no embeddings: ${REMEDY[dialect.kind]}, or leave out --embedding-worker`);
    }
    // Prefixes of texts to embed are not routed by: nobody follows its events.
    const events = { ranks: probed.events.ranks, followed: undefined };
    return { ...probed, info: { ...probed.info, publishesKvEvents: false }, events };
  });
}

/** `dialect`, but for what it asks its server at the start. */
function withProbe(dialect: EngineDialect, probe: EngineDialect['probe']): EngineDialect {
  return new Proxy(dialect, {
    get: (target, name) => {
      if (name === 'probe') return probe;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
