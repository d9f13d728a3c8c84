import { networkInterfaces } from 'node:os';
import type { CallerSettings } from '../../../config/index.ts';
import { type ListenAddress, listenAddress, refuseOpenListener } from '../../listen-address.ts';
import { fleetHost } from '../tcp/protection.ts';
import type { PlaneServerTls } from '../tcp/tls.ts';

/** Settings of the listener for workers' answers. */
export interface CallHomeSettings {
  /**
   * Address to bind and to tell workers, or the name of an interface (`DYN_TCP_RESPONSE_STREAM_HOST`). `auto` and the
   * wildcard addresses bind every interface and tell the first address that is not a loopback.
   */
  readonly host: string;
  /** Port to bind; 0 = any free one (`DYN_TCP_RESPONSE_STREAM_PORT`). */
  readonly port: number;
  /** Certificate, which always encrypts; with an authority, workers need a certificate, too. @default none */
  readonly tls?: PlaneServerTls | undefined;
  /** Time limit of TLS handshakes, in milliseconds. */
  readonly handshakeTimeoutMs: number;
  /** Longest message of a worker, in bytes (`DYN_TCP_MAX_MESSAGE_SIZE`). */
  readonly messageBytesMax: number;
}

/** Returns the host that a process binds for answers; undefined if no worker can dial the process. */
export function homeHostOf(settings: CallerSettings): string | undefined {
  if (settings.tcpResponseStreamPort === undefined) return undefined; // a function, which cannot be dialled
  return fleetHost(settings.tcpResponseStreamHost, settings, proofOf(settings));
}

/**
 * Returns why this process cannot call Dynamo's workers, as one line that says what to change; undefined if it can. The
 * secret of Stator's own plane does not protect the listener, because Dynamo's workers do not know it.
 */
export function refuseDynamo(settings: CallerSettings): string | undefined {
  const host = homeHostOf(settings);
  if (host === undefined) {
    return "Dynamo's workers deliver answers on connections that they open, and nothing can dial a function: serve the model by stator frontend";
  }
  return refuseOpenListener({
    name: "the listener for answers of Dynamo's workers",
    address: addressOf(host).bind,
    protectedBy: proofOf(settings),
    open: settings.planeOpen ?? false,
    remedies: [
      'set DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1 if the workers are on this machine',
      'set DYN_TCP_TLS_CERT_PATH, DYN_TCP_TLS_KEY_PATH and DYN_TCP_TLS_CLIENT_CA_CERT_PATH here and at the workers',
    ],
  });
}

function proofOf({ tcpTlsCertPath, tcpTlsClientCaCertPath }: CallerSettings): 'mTLS' | undefined {
  return tcpTlsCertPath !== undefined && tcpTlsClientCaCertPath !== undefined ? 'mTLS' : undefined;
}

/** Returns where to listen for `host`. The name of an interface stands for its first IPv4 address, as in Dynamo. */
export function addressOf(host: string): ListenAddress {
  const named = networkInterfaces()[host]?.find(({ family }) => family === 'IPv4');
  return listenAddress(named?.address ?? host);
}
