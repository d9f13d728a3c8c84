import { Fn, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { FleetStore, keyOf } from '../constructs/fleet-store.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { Network } from '../constructs/network.ts';
import { DataObservability } from '../constructs/observability/data-watches.ts';
import { passesBlocks, type Settings, zonesOf } from '../settings/index.ts';

interface DataStackProps extends StackProps {
  readonly settings: Settings;
}

/** Parts that outlast any release: the network, tables, files and secrets of a fleet. */
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
    this.#zones = zonesOf(settings.network);
    const { natGateways = this.#zones } = settings.network;
    this.network = new Network(this, 'Network', {
      ...settings.network,
      natGateways,
      zones: this.#zones,
      flowLogDays: settings.network.flowLogs ? settings.logRetentionDays : undefined,
      workerTransfers: settings.network.workerTransfers || passesBlocks(settings),
    });
    const removalPolicy = settings.retain ? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE : RemovalPolicy.DESTROY;
    this.store = new FleetStore(this, 'Store', { removalPolicy, encryptionKey: keyOf(this, settings) });
    // A first deployment that fails, fails at a quota of the network: before there are tables that are protected
    // against deletion.
    this.store.node.addDependency(this.network);
    if (settings.retain) keepLogs(this);
    new DataObservability(this, 'Observability', { store: this.store, network: this.network, settings });
  }

  /** A stack that is bound to no region knows two of its zones. */
  override get availabilityZones(): string[] {
    return Array.from({ length: this.#zones }, (_, at) => Fn.select(at, Fn.getAzs()));
  }
}
