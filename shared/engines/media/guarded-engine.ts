import { isIP } from 'node:net';
import type { Clock } from '../../clock/index.ts';
import { Semaphore } from '../../concurrency/index.ts';
import { ConfigError, type Settings } from '../../config/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import type { Engine, EngineSink } from '../types.ts';
import { checkMediaUrl, type MediaPolicy, mediaPolicy } from './media-policy.ts';
import { type NamedMedium, type RebuiltBody, rebuildMessages, rebuildReferences } from './media-urls.ts';
import { fetchMedia, MediaBudget, MediaConnections, type MediaFetchOptions, readLocalMedia } from './read-media.ts';

/** Limit of the media in one request; models take a handful. */
const MEDIA_MAX = 64;

interface MediaGuardOptions {
  readonly policy: MediaPolicy;
  readonly clock: Clock;
  /** Number of media that are read at the same time, over all requests; others wait. @default 100 */
  readonly fetchesMax?: number;
}

interface ReadOptions extends MediaFetchOptions {
  readonly budget: MediaBudget;
  /** Slots of the fetches under way. */
  readonly slots: Semaphore;
}

/**
 * Wraps `engine` so that it receives media only inline. Media that a chat, or a request for pictures or videos, names
 * by URL are read here, within the policy, and passed on as `data:` URLs. The engine itself never follows a client's
 * URL.
 */
export function createMediaGuardedEngine(
  engine: Engine,
  { policy, clock, fetchesMax = 100 }: MediaGuardOptions,
): Engine {
  const slots = new Semaphore(fetchesMax);
  const connections = new MediaConnections(policy);
  const generate = (request: EngineRequest, sink: EngineSink, signal: AbortSignal): void => {
    if (request.input.kind === 'text') {
      const budget = new MediaBudget(policy.requestBytesMax);
      inline(request, request.input, { policy, clock, signal, slots, connections, budget }, (ready) => {
        if (signal.aborted) return;
        if (ready instanceof Error) sink.fail(ready);
        else engine.generate(ready, sink, signal);
      });
    } else engine.generate(request, sink, signal);
  };
  return withGenerate(engine, generate);
}

/** Wraps `engine` with another `generate`. */
export function withGenerate(engine: Engine, generate: Engine['generate']): Engine {
  return new Proxy(engine, {
    get: (target, name) => {
      if (name === 'generate') return generate;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

type TextInput = Extract<EngineRequest['input'], { readonly kind: 'text' }>;

/** Passes the request with its media inline, or the error, to `done`; in this turn when there is nothing to read. */
function inline(
  request: EngineRequest,
  input: TextInput,
  options: ReadOptions,
  done: (ready: EngineRequest | ServeError) => void,
): void {
  let rebuilt: RebuiltBody;
  try {
    const starts = input.endpoint === 'images' || input.endpoint === 'videos';
    rebuilt = starts ? rebuildReferences(input.body) : rebuildMessages(input.body);
    takeInline(rebuilt, options);
  } catch (thrown) {
    done(toServeError(thrown));
    return;
  }
  const ready = { ...request, input: { ...input, body: rebuilt.body } };
  if (rebuilt.media.length === 0) {
    done(ready);
    return;
  }
  readMedia(rebuilt.media, options).then(
    () => done(ready),
    (thrown: unknown) => done(toServeError(thrown)),
  );
}

async function readMedia(media: readonly NamedMedium[], options: ReadOptions): Promise<void> {
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const byUrl = new Map<string, Promise<InlineMedium>>();
  await Promise.all(
    media.map(async ({ path, url, replaceWith }) => {
      try {
        const known = byUrl.get(url);
        const reading = known ?? readMedium(url, { ...options, signal });
        byUrl.set(url, reading);
        const { text, bytes } = await reading;
        if (known !== undefined) options.budget.take(bytes); // read once, but it stands in the body again
        replaceWith(text);
      } catch (thrown) {
        failed.abort(thrown); // the other media are no longer needed
        const { message, param } = toServeError(thrown);
        throw workerError('InvalidArgument', message, { param: param ?? path });
      }
    }),
  );
}

/** Counts the media, and the bytes of sounds that stand in the messages. @throws ServeError `invalid_value` */
function takeInline({ media, sounds }: RebuiltBody, { policy: { dataUrlBytesMax }, budget }: ReadOptions): void {
  const named = media.length + sounds.length;
  if (named > MEDIA_MAX) {
    throw workerError('InvalidArgument', `a request may have ${MEDIA_MAX} media, not ${named}`, { param: 'messages' });
  }
  for (const { path, data } of sounds) {
    const bytes = Math.floor(data.length * 0.75);
    if (bytes > dataUrlBytesMax) {
      const says = `input_audio.data has about ${bytes} bytes; at most ${dataUrlBytesMax} are allowed`;
      throw workerError('InvalidArgument', says, { param: path });
    }
    budget.take(bytes);
  }
}

/** Medium as a `data:` URL, with its number of bytes. */
interface InlineMedium {
  readonly text: string;
  readonly bytes: number;
}

async function readMedium(url: string, options: ReadOptions): Promise<InlineMedium> {
  const { policy, signal, slots, budget } = options;
  if (/^data:/i.test(url)) {
    const fault = checkMediaUrl(url, policy);
    if (fault !== undefined) throw workerError('InvalidArgument', `a media URL ${fault}`);
    budget.take(url.length);
    return { text: url, bytes: url.length };
  }
  const { localFolder: folder, fileBytesMax } = policy;
  const isLocal = folder !== undefined && /^file:/i.test(url);
  const { mediaType, bytes } = await slots.run(
    () => (isLocal ? readLocalMedia(url, { folder, fileBytesMax, budget }, signal) : fetchMedia(url, options)),
    signal,
  );
  return { text: `data:${mediaType};base64,${bytes.toString('base64')}`, bytes: bytes.length };
}

const MIB = 1024 * 1024;
/** Allowed entry of the list: a name, or a suffix after `*`. */
const ALLOWED_HOST = /^(\*|\*?[\w.-]+)$/;

/**
 * Wraps `engine` so that it never follows a client's URL: it receives media inline, read within the settings' bounds.
 * @throws ConfigError for an allowed host that cannot be a host's name
 */
export function withMediaGuard(engine: Engine, settings: Settings<'worker'>, clock: Clock): Engine {
  const { mmMaxFileSizeMb: fileMb, mmMaxDataUrlMb: dataMb, httpTimeoutSecs: seconds } = settings;
  const unfit = settings.mediaAllowHosts?.find((host) => !ALLOWED_HOST.test(host) && isIP(host) === 0);
  if (unfit !== undefined) {
    throw new ConfigError([
      `STATOR_MEDIA_ALLOW_HOSTS "${unfit}": allowed: host names, * as prefix; no scheme, no port`,
    ]);
  }
  const policy = mediaPolicy({
    allowHosts: settings.mediaAllowHosts,
    allowsInternal: settings.mmAllowInternal,
    localFolder: settings.mmLocalPath,
    requestBytesMax: settings.mmMaxRequestMb * MIB,
    keepAliveMs: settings.httpKeepaliveTimeoutSecs * 1000,
    connectTimeoutMs: settings.httpConnectTimeoutSecs * 1000,
    ...(fileMb === undefined ? {} : { fileBytesMax: fileMb * MIB }),
    ...(dataMb === undefined ? {} : { dataUrlBytesMax: dataMb * MIB }),
    ...(seconds === undefined ? {} : { timeoutMs: seconds * 1000 }),
  });
  return createMediaGuardedEngine(engine, { policy, clock, fetchesMax: settings.httpMaxConnections });
}
