import { Fn, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { FleetStore } from '../constructs/fleet-store.ts';
import { Network } from '../constructs/network.ts';
import type { Settings } from '../settings.ts';

export interface DataStackProps extends StackProps {
  readonly settings: Settings;
}

/** What lasts longer than any release: the network, tables, files and secrets of a fleet. */
export class DataStack extends Stack {
  readonly network: Network;
  readonly store: FleetStore;
  readonly #zones: number;

  constructor(scope: Construct, id: string, { settings, ...props }: DataStackProps) {
    super(scope, id, {
      description: 'Stator: network, tables, files and secrets',
      terminationProtection: settings.retain,
      ...props,
    });
    this.#zones = settings.network.zones;
    this.network = new Network(this, 'Network', settings.network);
    const removalPolicy = settings.retain ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY;
    this.store = new FleetStore(this, 'Store', { removalPolicy });
  }

  /** A stack that is bound to no region knows two of its zones. */
  override get availabilityZones(): string[] {
    return Array.from({ length: this.#zones }, (_, at) => Fn.select(at, Fn.getAzs()));
  }
}
