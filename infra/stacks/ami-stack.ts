import { Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { keepLogs } from '../constructs/log-groups.ts';
import { MachineImage } from '../constructs/machine-image/machine-image.ts';
import { Alarms } from '../constructs/observability/alarms.ts';
import { ruleMetric } from '../constructs/observability/fleet-watches.ts';
import { followReferences } from '../constructs/stack-references.ts';
import { imageParameterOf, type Settings, workerImagesIn } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';

interface AmiStackProps extends StackProps {
  readonly data: DataStack;
  readonly settings: Settings;
}

/** Images for the machines of fleets, with a pipeline for each. */
export class AmiStack extends Stack {
  constructor(scope: Construct, id: string, { data, settings, ...props }: AmiStackProps) {
    super(scope, id, { description: 'Stator: images for machines with GPUs', ...props });
    const alarms = new Alarms(new Construct(this, 'Observability'), settings.alarms);
    for (const [name, own] of Object.entries(settings.machineImages)) {
      const image = new MachineImage(this, `Image-${name}`, {
        name,
        settings: own,
        deployment: settings.name,
        workerImages: workerImagesIn(name, settings),
        parameter: imageParameterOf(settings, name),
        network: data.network,
        logRetentionDays: settings.logRetentionDays,
      });
      alarms.add({
        id: `Build-${name}`,
        metric: ruleMetric(image.failure, Duration.minutes(5)),
        threshold: 1,
        about: `a build of the image ${name} for machines has failed`,
        paragraph: 'an-image-for-machines-is-not-built',
        missing: 'quiet',
        periods: [1, 1],
      });
    }
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }
}
