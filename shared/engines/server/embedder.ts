import type { Settings } from '../../config/index.ts';
import type { EngineDialect } from './dialect.ts';

type KindSettings = Pick<Settings<'worker'>, 'embeddingWorker' | 'embeddingFrontendTokenization'>;

/** Returns whether texts to embed go to the engine unchanged: it tokenizes many of them at once. */
export function embedsText({ embeddingWorker, embeddingFrontendTokenization }: KindSettings): boolean {
  return embeddingWorker && !embeddingFrontendTokenization;
}

const REMEDY = {
  vllm: 'start it with --runner pooling',
  sglang: 'start it with --is-embedding',
  trtllm: 'use --engine vllm or sglang',
} as const satisfies Record<EngineDialect['kind'], string>;

/** Wraps `dialect` with the checks that the worker's own kind needs. */
export function forKind({ embeddingWorker }: KindSettings, dialect: EngineDialect): EngineDialect {
  if (!embeddingWorker) return dialect;
  return withProbe(dialect, async (server, launchFacts) => {
    const probed = await dialect.probe(server, launchFacts);
    if (!probed.info.modelType.includes('Embedding')) {
      throw new Error(`the engine serves no embeddings: ${REMEDY[dialect.kind]}, or leave out --embedding-worker`);
    }
    // Routers do not use prefixes of texts to embed, so the events are not followed.
    const events = { ranks: probed.events.ranks, followed: undefined };
    return { ...probed, info: { ...probed.info, publishesKvEvents: false }, events };
  });
}

/** Wraps `dialect` with another `probe`. */
function withProbe(dialect: EngineDialect, probe: EngineDialect['probe']): EngineDialect {
  return new Proxy(dialect, {
    get: (target, name) => {
      if (name === 'probe') return probe;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
