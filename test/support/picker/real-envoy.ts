import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';

/** Interpreter of the environment that has Envoy; empty if there is none. */
export const ENVOY_PYTHON = process.env.STATOR_TEST_ENVOY_PYTHON ?? '';

interface EnvoyOptions {
  /** Port of the picker on 127.0.0.1. */
  readonly pickerPort: number;
  /** Whether the picker serves TLS. Its certificate is not verified, as gateways do. */
  readonly isSecure: boolean;
  readonly requestMode: 'FULL_DUPLEX_STREAMED' | 'BUFFERED' | 'NONE';
  readonly responseMode: 'FULL_DUPLEX_STREAMED' | 'STREAMED' | 'NONE';
}

/** An Envoy that asks a picker for the endpoint of each request. */
export interface RealEnvoy {
  readonly url: string;
  readonly process: SpawnedProcess;
  close(): Promise<void>;
}

export async function startEnvoy(options: EnvoyOptions): Promise<RealEnvoy> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'stator-envoy-'));
  const file = join(folder, 'envoy.json');
  writeFileSync(file, JSON.stringify(configOf(port, options)));
  const args = ['-m', 'envoy._main', '-c', file, '--concurrency', '1', '--disable-hot-restart', '--log-level', 'warn'];
  const child = spawnProgram(ENVOY_PYTHON, args);
  const url = `http://127.0.0.1:${port}`;
  const isUp = async (): Promise<boolean> => {
    try {
      await fetch(url);
      return true;
    } catch {
      return false; // it does not listen yet
    }
  };
  await waitUntil(isUp, { timeoutMs: 60_000, what: 'an Envoy that listens' });
  return {
    url,
    process: child,
    close: async () => {
      await child.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const EXT = 'type.googleapis.com/envoy.extensions';

function configOf(port: number, { pickerPort, isSecure, requestMode, responseMode }: EnvoyOptions) {
  const isStreamed = requestMode === 'FULL_DUPLEX_STREAMED';
  const picker = {
    name: 'envoy.filters.http.ext_proc',
    typed_config: {
      '@type': `${EXT}.filters.http.ext_proc.v3.ExternalProcessor`,
      grpc_service: { envoy_grpc: { cluster_name: 'picker' }, timeout: '60s' },
      message_timeout: '30s',
      processing_mode: {
        request_header_mode: 'SEND',
        request_body_mode: requestMode,
        request_trailer_mode: isStreamed ? 'SEND' : 'SKIP',
        response_header_mode: 'SEND',
        response_body_mode: responseMode,
        response_trailer_mode: responseMode === 'FULL_DUPLEX_STREAMED' ? 'SEND' : 'SKIP',
      },
    },
  };
  const router = {
    name: 'envoy.filters.http.router',
    typed_config: { '@type': `${EXT}.filters.http.router.v3.Router` },
  };
  const manager = {
    '@type': `${EXT}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: 'gateway',
    preserve_external_request_id: true,
    route_config: {
      virtual_hosts: [
        {
          name: 'all',
          domains: ['*'],
          routes: [{ match: { prefix: '/' }, route: { cluster: 'pool', timeout: '0s' } }],
        },
      ],
    },
    http_filters: [picker, router],
  };
  const tls = {
    name: 'envoy.transport_sockets.tls',
    typed_config: { '@type': `${EXT}.transport_sockets.tls.v3.UpstreamTlsContext`, sni: 'picker' },
  };
  return {
    static_resources: {
      listeners: [
        {
          address: addressOf(port),
          filter_chains: [
            { filters: [{ name: 'envoy.filters.network.http_connection_manager', typed_config: manager }] },
          ],
        },
      ],
      clusters: [
        {
          name: 'picker',
          type: 'STATIC',
          connect_timeout: '5s',
          typed_extension_protocol_options: {
            'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
              '@type': `${EXT}.upstreams.http.v3.HttpProtocolOptions`,
              explicit_http_config: { http2_protocol_options: {} },
            },
          },
          load_assignment: {
            cluster_name: 'picker',
            endpoints: [{ lb_endpoints: [{ endpoint: { address: addressOf(pickerPort) } }] }],
          },
          ...(isSecure ? { transport_socket: tls } : {}),
        },
        {
          name: 'pool',
          type: 'ORIGINAL_DST',
          lb_policy: 'CLUSTER_PROVIDED',
          connect_timeout: '5s',
          original_dst_lb_config: { use_http_header: true, http_header_name: 'x-gateway-destination-endpoint' },
        },
      ],
    },
  };
}

function addressOf(port: number) {
  return { socket_address: { address: '127.0.0.1', port_value: port } };
}
