import { ARecord, HostedZone, type IAliasRecordTarget, RecordTarget } from 'aws-cdk-lib/aws-route53';
import type { Construct } from 'constructs';

interface ZoneRecordProps {
  readonly name: string;
  /** Hosted zone of Route 53 in which the name is made. */
  readonly hostedZone: { readonly id: string; readonly name: string };
  /** Target of the name. */
  readonly target: IAliasRecordTarget;
}

/** Makes a name in its zone. */
export function addZoneRecord(scope: Construct, id: string, { name, hostedZone, target }: ZoneRecordProps): void {
  const attributes = { hostedZoneId: hostedZone.id, zoneName: hostedZone.name };
  new ARecord(scope, id, {
    zone: HostedZone.fromHostedZoneAttributes(scope, `${id}Zone`, attributes),
    recordName: `${name}.`,
    target: RecordTarget.fromAlias(target),
  });
}
