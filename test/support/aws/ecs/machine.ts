import { dirname, resolve } from 'node:path';
import { freePort } from '../../free-port.ts';
import type { ContainerPlan } from './containers.ts';
import type { TaskPlan } from './services.ts';

/** The local program that stands for an image. */
export interface LocalImage {
  /** Entry point of the image, which a template may override. */
  readonly entryPoint: readonly string[];
  readonly command: readonly string[];
  /** Variables of the image, and variables that let several of its processes share a machine. */
  readonly environment: Readonly<Record<string, string>>;
  /** Folders of this machine, by their paths in the image. */
  readonly folders: Readonly<Record<string, string>>;
}

/** The machine that runs tasks in place of Fargate. */
export interface Machine {
  /**
   * Returns the local program for an image.
   * @throws Error for an image without one
   */
  imageOf(image: string): LocalImage;
  /** Returns the text of a secret, by the `ValueFrom` of a container. */
  secretOf(valueFrom: string): string;
  /** Returns further variables for the containers of a task: its credentials and the endpoints of AWS. @default none */
  environmentOf?(task: TaskPlan): Readonly<Record<string, string>>;
  /** Folder for the disks of tasks. */
  readonly folder: string;
}

const NATS = /(^|\/)nats:/;

/** Search path that finds programs by name, as in an image: Node, and the NATS server if it is installed. */
const PATH = [
  dirname(process.execPath),
  ...(process.env.STATOR_TEST_NATS_BIN ? [dirname(process.env.STATOR_TEST_NATS_BIN)] : []),
  process.env.PATH ?? '',
].join(':');

/** Settings with which the processes of one machine connect over loopback, still encrypted. */
export const SHARED = {
  DYN_TCP_RPC_HOST: '127.0.0.1',
  DYN_SYSTEM_HOST: '127.0.0.1',
  STATOR_PLANE_TLS: 'on',
};

/** Returns the program for the images of this repository: that of `infra/images/edge`, and that of the NATS server. */
export function imageHere(image: string): LocalImage {
  if (NATS.test(image)) return { entryPoint: [], command: [], environment: { PATH }, folders: {} };
  if (!/(^|\/)stator[:@]/.test(image)) throw new Error(`there is no image ${image} here`);
  return {
    entryPoint: ['node', '/app/bin/stator.js'],
    command: ['frontend'],
    environment: { PATH, ...SHARED },
    folders: { '/app': resolve('.') },
  };
}

/** Ports of this machine, keyed by a machine of the deployment and its port there. */
export class Ports {
  readonly #given = new Map<string, Promise<number>>();

  /** Returns the same port for the same arguments, because an address outlives the task behind it. */
  of(machine: string, port: number): Promise<number> {
    const key = `${machine}:${port}`;
    const known = this.#given.get(key) ?? freePort();
    this.#given.set(key, known);
    return known;
  }
}

/** Rewrites texts of a container for this machine. */
export type Localize = (text: string) => string;

/**
 * Returns a function that adapts the texts of a task's containers to this machine. It replaces the ports of the task,
 * the ports of hosts that the task names, and its folders.
 *
 * @param machine key for the ports of the task itself
 * @param machineOf returns the key for a host name
 */
export async function localizeFor(
  task: TaskPlan,
  {
    machine,
    machineOf,
    ports,
    folders,
  }: {
    readonly machine: string;
    readonly machineOf: (host: string) => string | undefined;
    readonly ports: Ports;
    readonly folders: Readonly<Record<string, string>>;
  },
): Promise<Localize> {
  const own = new Map<string, number>();
  for (const port of ownPorts(task)) own.set(String(port), await ports.of(machine, port));
  const others = new Map<string, string>();
  for (const text of task.containers.flatMap(textsOf)) {
    for (const [address, host = '', port] of text.matchAll(HOST_AND_PORT)) {
      const other = machineOf(host);
      if (other !== undefined) others.set(address, `127.0.0.1:${await ports.of(other, Number(port))}`);
    }
  }
  const paths = Object.keys(folders).map((path) => path.replaceAll('.', '\\.'));
  const inFolders = new RegExp(`(?<![\\w./-])(${paths.join('|')})(?=/|[^\\w-]|$)`, 'g');
  return (text) => {
    if (own.has(text)) return String(own.get(text));
    const here = text
      .replaceAll(HOST_AND_PORT, (address) => others.get(address) ?? address)
      .replaceAll(/((?:127\.0\.0\.1|localhost|0\.0\.0\.0)[:/]|\bport: ?|port=)(\d+)\b/gi, (all, before, port) =>
        own.has(port) ? `${before}${own.get(port)}` : all,
      );
    return paths.length === 0 ? here : here.replaceAll(inFolders, (path) => folders[path] ?? path);
  };
}

const HOST_AND_PORT = /\b([a-z0-9-]+(?:\.[a-z0-9-]+)+):(\d+)\b/g;

function textsOf({ command = [], entryPoint = [], environment, health }: ContainerPlan): readonly string[] {
  return [...entryPoint, ...command, ...Object.values(environment), ...(health?.command ?? [])];
}

/**
 * Collects the ports that a task listens on: its port mappings, the ports of its health checks, and the ports in its
 * variables.
 */
function ownPorts({ containers }: TaskPlan): ReadonlySet<number> {
  const found = containers.flatMap((container) => [
    ...container.ports,
    ...(container.health?.command ?? []).flatMap((text) =>
      [...text.matchAll(/(?:127\.0\.0\.1|localhost):(\d+)/g)].map(([, port]) => Number(port)),
    ),
    ...Object.entries(container.environment).flatMap(([name, value]) =>
      name.endsWith('_PORT') && /^[1-9]\d*$/.test(value) ? [Number(value)] : [],
    ),
  ]);
  return new Set(found);
}
