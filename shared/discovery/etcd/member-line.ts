import { type ChannelCredentials, Client, type ClientOptions, credentials, type Metadata } from '@grpc/grpc-js';
import { same, toBuffer } from '../../grpc/index.ts';
import { toFailure } from './etcd-errors.ts';
import { type EtcdPlace, readCertificates } from './options.ts';

/** Largest message that is read. A page of cards has some megabytes. */
const MESSAGE_BYTES_MAX = 32 << 20;
const PROBE_MS = 6000;
const PROBE_ANSWER_MS = 4000;

/** Connection to one member of an etcd cluster. Connects at the first call. */
export class MemberLine {
  readonly #client: Client;

  /** @throws DiscoveryError for certificates that cannot be used */
  constructor(endpoint: string, place: EtcdPlace) {
    const { host, protocol } = new URL(endpoint);
    const port = /:\d+$/.test(host) ? '' : protocol === 'https:' ? ':443' : ':80';
    this.#client = new Client(`${host}${port}`, credentialsFor(protocol, place), optionsOf(place));
  }

  /** Sends one question. Rejects with `EtcdFailure`, and cancels the call when the signal aborts. */
  ask(path: string, question: Uint8Array, metadata: Metadata, signal: AbortSignal): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(path, toBuffer, same, question, metadata, (error, answer) => {
        signal.removeEventListener('abort', cancel);
        if (error === null && answer !== undefined) resolve(answer);
        else reject(toFailure(error));
      });
      const cancel = (): void => call.cancel();
      signal.addEventListener('abort', cancel, { once: true });
    });
  }

  stream(path: string, metadata: Metadata) {
    return this.#client.makeBidiStreamRequest(path, toBuffer, same, metadata);
  }

  /** Takes no further calls. The connection ends with the last one. */
  close(): void {
    this.#client.close();
  }
}

function credentialsFor(protocol: string, { tls = {} }: EtcdPlace): ChannelCredentials {
  if (protocol !== 'https:') return credentials.createInsecure();
  const { ca, key, cert } = readCertificates(tls);
  return credentials.createSsl(ca, key, cert);
}

/** Options of the gRPC library, which leave to the client when to connect and which member to ask. */
function optionsOf({ probeMs = PROBE_MS }: EtcdPlace): ClientOptions {
  return {
    'grpc.max_receive_message_length': MESSAGE_BYTES_MAX,
    'grpc.max_send_message_length': MESSAGE_BYTES_MAX,
    'grpc.keepalive_time_ms': probeMs,
    'grpc.keepalive_timeout_ms': Math.min(probeMs, PROBE_ANSWER_MS),
    'grpc.enable_retries': 0,
    'grpc.enable_http_proxy': 0,
    'grpc.enable_channelz': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.use_local_subchannel_pool': 1, // a new connection does not wait for the back-off of the last one
  };
}
