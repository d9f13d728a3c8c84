import type { Clock } from '../../clock/index.ts';
import { Slots } from '../../concurrency/index.ts';
import { toServeError, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/generation/index.ts';
import type { Engine, EngineSink } from '../types.ts';
import { fetchMedia } from './fetch-media.ts';
import { readLocalMedia } from './local-media.ts';
import { MediaConnections } from './media-connections.ts';
import { checkMediaUrl, type MediaPolicy } from './media-policy.ts';
import { mediaUrlsOf, withMediaUrls } from './media-urls.ts';

/** Media of one request; models take a handful. */
const MEDIA_MAX = 64;

export interface MediaGuardOptions {
  readonly policy: MediaPolicy;
  readonly clock: Clock;
  /** Media read at the same time, over all requests; further ones wait. @default 100 */
  readonly fetchesMax?: number;
}

interface FetchOptions {
  readonly policy: MediaPolicy;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Of the fetches under way. */
  readonly slots: Slots;
  readonly connections: MediaConnections;
}

/**
 * `engine`, which gets media only inline: what a chat names by URL is read here, within the policy, and handed over as
 * `data:` URLs. So the engine itself never follows a URL of a client.
 */
export function createMediaGuardedEngine(
  engine: Engine,
  { policy, clock, fetchesMax = 100 }: MediaGuardOptions,
): Engine {
  const slots = new Slots(fetchesMax);
  const connections = new MediaConnections(policy);
  const generate = (request: EngineRequest, sink: EngineSink, signal: AbortSignal): void => {
    const named = request.input.kind === 'text' ? mediaUrlsOf(request.input.body) : [];
    if (named.length === 0) {
      engine.generate(request, sink, signal);
      return;
    }
    inlined(request, { policy, clock, signal, slots, connections })
      .then((ready) => {
        if (!signal.aborted) engine.generate(ready, sink, signal);
      })
      .catch((thrown: unknown) => {
        if (!signal.aborted) sink.fail(toServeError(thrown));
      });
  };
  return new Proxy(engine, {
    get: (target, name) => {
      if (name === 'generate') return generate;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

async function inlined(request: EngineRequest, options: FetchOptions): Promise<EngineRequest> {
  if (request.input.kind !== 'text') return request;
  const { body } = request.input;
  const named = mediaUrlsOf(body);
  if (named.length > MEDIA_MAX) {
    throw workerError('InvalidArgument', `a request may name ${MEDIA_MAX} media, not ${named.length}`, {
      param: 'messages',
    });
  }
  const byUrl = new Map<string, Promise<string>>();
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const replacements = new Map<string, string>();
  await Promise.all(
    named.map(async ({ path, url }) => {
      try {
        const known = byUrl.get(url) ?? inline(url, { ...options, signal });
        byUrl.set(url, known);
        replacements.set(path, await known);
      } catch (thrown) {
        failed.abort(thrown); // the other media are not needed any more
        throw workerError('InvalidArgument', toServeError(thrown).message, { param: path });
      }
    }),
  );
  return { ...request, input: { ...request.input, body: withMediaUrls(body, replacements) } };
}

async function inline(url: string, options: FetchOptions): Promise<string> {
  if (/^data:/i.test(url)) {
    const fault = checkMediaUrl(url, options.policy);
    if (fault !== undefined) throw workerError('InvalidArgument', `a media URL ${fault}`);
    return url;
  }
  const { policy, signal, slots } = options;
  const { localFolder: folder, fileBytesMax } = policy;
  const isLocal = folder !== undefined && /^file:/i.test(url);
  const { mediaType, bytes } = await slots.run(signal, () =>
    isLocal ? readLocalMedia(url, { folder, fileBytesMax }, signal) : fetchMedia(url, options),
  );
  return `data:${mediaType};base64,${bytes.toString('base64')}`;
}
