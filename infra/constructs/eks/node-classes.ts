import {
  type EksFleetSettings,
  type GivenTypes,
  isReserved,
  nodePoolNameOf,
  type PodOption,
  type Settings,
  typeOf,
  workloadNamesOf,
} from '../../settings/index.ts';
import type { NodeNeeds, NodeStarter } from './nodes.ts';

/** Settings of a cluster from which the classes of its nodes follow. */
interface Around {
  readonly starter: NodeStarter;
  readonly diskGib: number;
  readonly types: GivenTypes;
}

/** A class of nodes that only one option has. */
interface OwnClass extends NodeNeeds {
  /** Name of the class, which is that of the option's node pool. */
  readonly name: string;
}

const BYTES_OF_GB = 1e9;
const BYTES_OF_GIB = 2 ** 30;

/**
 * Returns the needs of an option's nodes; undefined if the class of all fleets meets them. Auto Mode uses the instance
 * store of a type by itself.
 */
export function needsOf(option: PodOption, fleet: EksFleetSettings, around: Around): NodeNeeds | undefined {
  const { reservationId } = option;
  const hasInstanceStore =
    around.starter === 'karpenter' &&
    fleet.weights?.mode === 'disk' &&
    option.types.every((name) => storageGibOf(name, around.types) >= around.diskGib);
  return isReserved(option) || hasInstanceStore ? { reservationId, hasInstanceStore } : undefined;
}

function storageGibOf(name: string, types: GivenTypes): number {
  return ((typeOf(name, types)?.storageGb ?? 0) * BYTES_OF_GB) / BYTES_OF_GIB;
}

/** Returns the classes of nodes that single options of the fleets on EKS have. */
export function ownClassesOf({ name: deployment, fleets, instanceTypes: types, eks }: Settings): readonly OwnClass[] {
  const around = { starter: eks.cluster?.nodes ?? 'auto-mode', diskGib: eks.diskGib, types } as const;
  return Object.entries(fleets).flatMap(([fleetName, fleet]) => {
    if (fleet.kind !== 'eks') return [];
    const names = workloadNamesOf(fleetName, fleet);
    return fleet.options.flatMap((option, at) => {
      const needs = needsOf(option, fleet, around);
      return needs === undefined ? [] : [{ ...needs, name: nodePoolNameOf(deployment, names[at] ?? '') }];
    });
  });
}
