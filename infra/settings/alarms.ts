import * as z from 'zod';
import { Arn } from './names.ts';

/** What somebody is told, and where. */
export const Alarms = z
  .strictObject({
    /** Topic that alarms go to. @default none: they are seen in the console */
    topicArn: Arn.optional(),
    /** Topic of the one alarm that somebody is woken for: customers are affected. @default `topicArn` */
    pageTopicArn: Arn.optional(),
    /** Time to the first token that 99 of 100 requests stay below, in seconds. */
    ttftP99Secs: z.number().positive().default(10),
  })
  .prefault({});
