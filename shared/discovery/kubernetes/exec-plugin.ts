import { execFile } from 'node:child_process';
import { isAbsolute, resolve } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { DiscoveryError } from '../options.ts';
import type { KubeCredentials } from './access.ts';

interface ExecPluginPlace {
  readonly clock: Clock;
  readonly server: string;
  /** Folder of the kubeconfig, from which a relative path of the command starts. */
  readonly folder: string;
}

const VERSIONS = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
const RUN_MS_MAX = 30_000;
const OUTPUT_BYTES_MAX = 1 << 20;
/** Time before its end at which a token is asked for anew. */
const AHEAD_MS = 10_000;

/**
 * A program that prints credentials, such as `aws eks get-token`. It runs when there are none, when they end, and when
 * the server refuses them. It cannot ask a person: its standard input is closed.
 */
export class ExecPlugin {
  readonly #spec: UnknownRecord;
  readonly #place: ExecPluginPlace;
  readonly #version: string;
  #known: { readonly credentials: KubeCredentials; readonly untilMs: number } | undefined;
  #running: Promise<KubeCredentials> | undefined;

  /** @throws DiscoveryError `misconfigured` for a command that this process cannot run */
  constructor(spec: UnknownRecord, place: ExecPluginPlace) {
    this.#spec = spec;
    this.#place = place;
    this.#version = typeof spec.apiVersion === 'string' ? spec.apiVersion : 'none';
    if (typeof spec.command !== 'string') throw broken('exec has no command');
    if (!VERSIONS.includes(this.#version)) {
      throw broken(`apiVersion ${this.#version} of exec: supported are ${VERSIONS.join(', ')}`);
    }
    if (spec.interactiveMode === 'Always') throw broken('interactiveMode Always of exec needs a person');
  }

  async credentials(isRefused: boolean, _signal: AbortSignal): Promise<KubeCredentials> {
    const known = this.#known;
    if (!isRefused && known !== undefined && this.#place.clock.wallMs() < known.untilMs) return known.credentials;
    // Calls at the same time share one run, which has its own time limit.
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(): Promise<KubeCredentials> {
    const text = await this.#output();
    let status: UnknownRecord | undefined;
    try {
      status = asRecord(asRecord(JSON.parse(text))?.status);
    } catch {
      status = undefined; // not JSON, which the line below reports
    }
    if (status === undefined) throw broken(`${this.#command} printed no ExecCredential`);
    const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp: until } = status;
    const credentials = {
      ...(typeof token === 'string' && { token }),
      ...(typeof cert === 'string' && typeof key === 'string' && { cert, key }),
    };
    const endsMs = typeof until === 'string' ? Date.parse(until) : Number.NaN;
    this.#known = { credentials, untilMs: Number.isNaN(endsMs) ? Number.POSITIVE_INFINITY : endsMs - AHEAD_MS };
    return credentials;
  }

  get #command(): string {
    const command = String(this.#spec.command);
    return command.includes('/') && !isAbsolute(command) ? resolve(this.#place.folder, command) : command;
  }

  #output(): Promise<string> {
    const { args, env } = this.#spec;
    const info = {
      apiVersion: this.#version,
      kind: 'ExecCredential',
      spec: { interactive: false, cluster: { server: this.#place.server } },
    };
    const own = Object.fromEntries(listed(env).map((each) => [String(each.name), String(each.value)]));
    const options = {
      env: { ...process.env, ...own, KUBERNETES_EXEC_INFO: JSON.stringify(info) },
      timeout: RUN_MS_MAX,
      maxBuffer: OUTPUT_BYTES_MAX,
    };
    return new Promise((fulfil, reject) => {
      const child = execFile(this.#command, texts(args), options, (error, stdout, stderr) => {
        if (error === null) return fulfil(stdout);
        const last = stderr.trim().split('\n').at(-1)?.slice(0, 300);
        reject(broken(`${this.#command} of exec failed: ${last || reasonOf(error)}`));
      });
      child.stdin?.end();
    });
  }
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function listed(value: unknown): readonly UnknownRecord[] {
  return Array.isArray(value) ? value.map((each) => asRecord(each) ?? {}) : [];
}

function broken(what: string): DiscoveryError {
  return new DiscoveryError('misconfigured', `the kubeconfig: ${what}`);
}
