/** How one signal is sent. */
export interface OtlpTarget {
  readonly protocol: 'grpc' | 'http/protobuf';
  /** With gRPC the address of the collector; with http/protobuf the whole URL, path included. */
  readonly url: string;
}

export interface OtlpAddresses {
  readonly endpoint: string;
  /** Endpoint of one signal, used as it is. */
  readonly tracesEndpoint?: string | undefined;
  readonly logsEndpoint?: string | undefined;
  readonly tracesProtocol: OtlpTarget['protocol'];
  readonly logsProtocol: OtlpTarget['protocol'];
}

const SIGNAL_PATH = { traces: '/v1/traces', logs: '/v1/logs' } as const;

/** Where traces and logs go: over HTTP, the path of the signal is put behind the general endpoint. */
export function otlpTargets(addresses: OtlpAddresses): { readonly traces: OtlpTarget; readonly logs: OtlpTarget } {
  const { endpoint, tracesEndpoint, logsEndpoint, tracesProtocol, logsProtocol } = addresses;
  const target = (signal: keyof typeof SIGNAL_PATH, own: string | undefined, protocol: OtlpTarget['protocol']) => {
    const url = own ?? (protocol === 'grpc' ? endpoint : `${endpoint.replace(/\/+$/, '')}${SIGNAL_PATH[signal]}`);
    return { protocol, url };
  };
  return {
    traces: target('traces', tracesEndpoint, tracesProtocol),
    logs: target('logs', logsEndpoint, logsProtocol),
  };
}
