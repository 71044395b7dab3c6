-- Parsing a filter: from its text to a tree as jsonb, which is stored with the campaign and never changes.
--
-- A tree is `{"and": [trees]}`, `{"or": [trees]}`, `{"not": tree}` or a condition:
--   {"field": "locale", "is": "in", "values": ["de"]}             equals one of the values; of tags: has one of them
--   {"field": "attribute", "name": "visits", "is": "<", "value": 7}
--   {"field": "seen", "is": "within", "seconds": 2592000}
--   {"field": "user", "is": "missing"}
--   {"field": "audience", "name": "vips"}                         a saved one (`pushq.with_audiences`)
-- pushq adds conditions with `"implied": true`; no user wrote them (`pushq.tree_of_starts`).

-- Parses a filter; null for null. An error (`PQ400`) names its position.
--
-- Operators wait on a stack until an operator with lower precedence follows, or the end: `not` before `and` before
-- `or`. The operators of a chain wait together, so that the chain becomes a tree once, and not again for each of its
-- parts.
create or replace function pushq.parse_filter(filter text) returns jsonb
language plpgsql stable as $$
declare
  words      text[];
  positions  int[];
  i          int     := 1;
  word       text;
  trees      jsonb[] := '{}';
  waiting    text[]  := '{}';                             -- not, and, or, and opening parentheses
  many       int;                                         -- the number of equal ones at the end of `waiting`
  opened     int[]   := '{}';                             -- the positions of the open parentheses
  wants      boolean := true;                             -- a condition comes next, not an operator
  conditions int     := 0;
  tree       jsonb;
  next       int;
begin
  if filter is null then
    return null;
  elsif length(filter) > 10000 then
    perform pushq.refuse_filter(10001, 'it is longer than 10000 characters');
  end if;
  select w.words, w.positions into words, positions from pushq.filter_words(filter) w;
  if words[1] = '' then
    perform pushq.refuse_filter(1, 'it is empty');
  end if;
  loop
    word := lower(words[i] collate "C");
    if wants and word = 'not' then
      waiting := waiting || word;
    elsif wants and word = '(' then
      waiting := waiting || word;
      opened := opened || positions[i];
      if cardinality(opened) > 20 then
        perform pushq.refuse_filter(positions[i], 'more than 20 parentheses are open here');
      end if;
    elsif wants then
      conditions := conditions + 1;
      if conditions > pushq.most_conditions() then
        perform pushq.refuse_filter(positions[i], pushq.many_conditions(
          (select conditions + count(*) from unnest(words[i :]) w where lower(w collate "C") in ('and', 'or'))));
      end if;
      select c.condition, c.next into tree, next from pushq.filter_condition(words, positions, i) c;
      trees := trees || tree;
      i := next - 1;
      wants := false;
    elsif word in ('and', 'or', ')', '') then
      while cardinality(waiting) > 0 and waiting[cardinality(waiting)] <> '('
        and waiting[cardinality(waiting)] <> word and (word <> 'and' or waiting[cardinality(waiting)] <> 'or')
      loop
        many := 1;
        while waiting[cardinality(waiting) - many] = waiting[cardinality(waiting)] loop
          many := many + 1;
        end loop;
        trees := pushq.join_trees(trees, waiting[cardinality(waiting)], many);
        waiting := trim_array(waiting, many);
      end loop;
      exit when word = '' and cardinality(waiting) = 0;
      if word = ')' and cardinality(waiting) = 0 then
        perform pushq.refuse_filter(positions[i], 'this “)” closes nothing');
      elsif word = '' then
        perform pushq.refuse_filter(
          positions[i], format('the “(” at position %s is not closed', opened[cardinality(opened)]));
      elsif word = ')' then
        waiting := trim_array(waiting, 1);
        opened := trim_array(opened, 1);
      else
        waiting := waiting || word;
        wants := true;
      end if;
    else
      perform pushq.refuse_filter(
        positions[i],
        format('expected “and”, “or” or the end, not %s%s', pushq.shown_word(words[i]),
               pushq.suggestion(word, array['and', 'or'])));
    end if;
    i := i + 1;
  end loop;
  return trees[1];
end $$;

-- Joins the last trees with an operator that waits `many` times. A chain of one operator becomes one tree, and two
-- `not` cancel out, so a tree is not deeper than its parentheses.
create or replace function pushq.join_trees(trees jsonb[], operator text, many int) returns jsonb[]
language plpgsql stable as $$
declare
  last  jsonb := trees[cardinality(trees)];
  first jsonb := trees[cardinality(trees) - many];
begin
  if operator = 'not' then
    return trim_array(trees, 1)
      || case when many % 2 = 0 then last else coalesce(last -> 'not', jsonb_build_object('not', last)) end;
  end if;
  return trim_array(trees, many + 1)
    || jsonb_build_object(operator, coalesce(first -> operator, jsonb_build_array(first))
                                      || to_jsonb(trees[cardinality(trees) - many + 1 :]));
end $$;

-- The maximum number of conditions in a filter, including those of its saved audiences. Each is evaluated for each
-- device.
create or replace function pushq.most_conditions() returns int
language sql stable as $$ select 200 $$;

-- The error message for a filter with too many conditions.
create or replace function pushq.many_conditions(count bigint) returns text
language plpgsql stable as $$
begin
  return format(
    'it has %s conditions, and may have %s: write one condition for several values, such as tag in (''a'', ''b'')',
    count, pushq.most_conditions());
end $$;

-- Parses the condition that begins at word `i`. Returns it with the index of the next word.
create or replace function pushq.filter_condition(
  words text[], positions int[], i int, out condition jsonb, out next int
)
language plpgsql stable as $$
declare
  fields constant text[] := array['locale', 'time_zone', 'app_version', 'kind', 'user', 'tag', 'attribute',
                                  'registered', 'seen', 'activity_type', 'activity', 'audience'];
  field  text := lower(words[i] collate "C");
  shown  text := pushq.shown_word(words[i]);
  name   text;
  sign   text;
  denied boolean := false;
  given  jsonb[] := '{}';
begin
  if not field = any (fields) then
    perform pushq.refuse_filter(
      positions[i],
      case when field in ('''', '"') then 'this quote is not closed'
           when field ~ '^[‘’“”„]' then format('%s is not a quote: use ''', words[i])
           when field !~ '^[a-z_]' then format('expected a field, “not” or “(”, not %s', shown)
           when field in ('and', 'or', 'in', 'is', 'within') then format('expected a field before %s', shown)
           when field in ('version', 'language', 'lang', 'timezone', 'user_key', 'last_seen', 'first_seen', 'tags')
             then format('there is no field %s: use %s', shown, (jsonb_build_object(
                    'version', 'app_version', 'language', 'locale', 'lang', 'locale', 'timezone', 'time_zone',
                    'user_key', 'user', 'last_seen', 'seen', 'first_seen', 'registered', 'tags', 'tag')) ->> field)
           when pushq.suggestion(field, fields) <> ''
             then format('there is no field %s%s', shown, pushq.suggestion(field, fields))
           else format('there is no field %s; if it is an attribute, write: attribute %s', shown, words[i]) end);
  end if;
  next := i + 1;
  if field in ('attribute', 'audience') then
    name := pushq.filter_name(words, positions, next, field);
    next := next + 1;
  end if;
  condition := jsonb_strip_nulls(jsonb_build_object('field', field, 'name', name));

  if field = 'audience' then
    return;
  end if;

  -- The short form: tag 'vip'
  if field = 'tag' and words[next] ~ '^[''"].' then
    condition := condition
      || jsonb_build_object('is', 'in', 'values', jsonb_build_array(pushq.filter_value(words, positions, next, field)));
    next := next + 1;
    return;
  end if;

  sign := lower(words[next] collate "C");
  if sign = 'is' then
    denied := lower(words[next + 1] collate "C") = 'not';
    next := next + case when denied then 2 else 1 end;
    if lower(words[next] collate "C") <> 'missing' then
      perform pushq.refuse_filter(
        positions[next], format('expected “missing” behind “is”, not %s', pushq.shown_word(words[next])));
    elsif field = 'kind' then
      perform pushq.refuse_filter(
        positions[next], 'a kind is never missing: a token without a given kind is of kind ''alert''');
    end if;
    condition := condition || '{"is": "missing"}';
    next := next + 1;
  elsif sign = 'in' or sign = 'not' and lower(words[next + 1] collate "C") = 'in' then
    denied := sign = 'not';
    next := next + case when denied then 2 else 1 end;
    if field in ('registered', 'seen') then
      perform pushq.refuse_filter(positions[next - 1], format('%s takes <, <=, >, >= or within', shown));
    elsif words[next] <> '(' then
      perform pushq.refuse_filter(
        positions[next], format('expected “(” behind “in”, not %s', pushq.shown_word(words[next])));
    end if;
    loop
      given := given || pushq.filter_value(words, positions, next + 1, field);
      next := next + 2;
      exit when words[next] is distinct from ',';
    end loop;
    if words[next] <> ')' then
      perform pushq.refuse_filter(
        positions[next], format('expected “,” or “)”, not %s', pushq.shown_word(words[next])));
    end if;
    condition := condition || jsonb_build_object('is', 'in', 'values', to_jsonb(given));
    next := next + 1;
  elsif sign = 'within' then
    if field not in ('registered', 'seen') then
      perform pushq.refuse_filter(positions[next], '“within” is for “registered” and “seen” only');
    end if;
    condition := condition
      || jsonb_build_object('is', 'within', 'seconds', pushq.filter_seconds(words, positions, next + 1));
    next := next + 3;
  elsif sign in ('=', '!=', '<', '<=', '>', '>=') then
    if field in ('registered', 'seen') and sign in ('=', '!=') then
      perform pushq.refuse_filter(positions[next], format('%s takes <, <=, >, >= or within', shown));
    elsif field = 'tag' then
      perform pushq.refuse_filter(positions[next], 'a tag is there or not: write tag ''vip'', or not tag ''vip''');
    elsif field in ('locale', 'time_zone', 'kind', 'user', 'activity_type', 'activity') and sign not in ('=', '!=') then
      perform pushq.refuse_filter(positions[next], format('%s has no order: use =, != or in', shown));
    elsif sign in ('=', '!=') then
      denied := sign = '!=';
      condition := condition || jsonb_build_object(
        'is', 'in', 'values', jsonb_build_array(pushq.filter_value(words, positions, next + 1, field)));
    else
      condition := condition
        || jsonb_build_object('is', sign, 'value', pushq.filter_value(words, positions, next + 1, field));
      if jsonb_typeof(condition -> 'value') = 'boolean' then
        perform pushq.refuse_filter(positions[next], 'true and false have no order: use = or !=');
      end if;
    end if;
    next := next + 2;
  else
    perform pushq.refuse_filter(
      positions[next],
      case when sign in ('==', '<>') then format('use %s for “%s”', case sign when '==' then '=' else '!=' end, sign)
           when field = 'tag'
             then format('expected a tag in quotes, such as tag ''vip'', not %s', pushq.shown_word(words[next]))
           else format('expected =, !=, <, <=, >, >=, “in”, “is” or “within” behind %s, not %s%s', shown,
                       pushq.shown_word(words[next]), pushq.suggestion(sign, array['in', 'is', 'within', 'not'])) end);
  end if;
  if denied then
    condition := jsonb_build_object('not', condition);
  end if;
end $$;

-- The name of an attribute or an audience: a word, or a text in quotes.
create or replace function pushq.filter_name(words text[], positions int[], i int, field text) returns text
language plpgsql stable as $$
begin
  if words[i] ~ '^[A-Za-z_]' then
    return words[i];
  elsif words[i] ~ '^[''"]..' then
    return pushq.unquoted(words[i]);
  end if;
  perform pushq.refuse_filter(
    positions[i], format('expected the name of an %s, not %s', field, pushq.shown_word(words[i])));
end $$;

-- A text without its quotes. A quote within it is written twice.
create or replace function pushq.unquoted(word text) returns text
language plpgsql stable as $$
begin
  return replace(substr(word, 2, length(word) - 2), repeat(left(word, 1), 2), left(word, 1));
end $$;

-- The value that a field is compared with, as the tree stores it: a text, a number, true or false; for a time, the
-- seconds since 1970.
create or replace function pushq.filter_value(words text[], positions int[], i int, field text) returns jsonb
language plpgsql stable as $$
declare
  word    text := words[i];
  value   text;
  plain   text;                                           -- in the form that registrations store
  right_name text;                                        -- of a time zone whose name is misspelt
  problem text;
begin
  if word ~ '^[''"].' then
    value := pushq.unquoted(word);
  elsif word ~ '^-?[0-9]' and field = 'attribute' then
    if word !~ '^-?[0-9]+([.][0-9]+)?$' then
      perform pushq.refuse_filter(
        positions[i],
        format('%s is not a number; as a text it needs quotes: ''%s''', pushq.shown_word(word), pushq.shown(word, 40)));
    end if;
    return to_jsonb(word::numeric);
  elsif word ~ '^[0-9]' and field = 'app_version' then
    value := word;
  elsif lower(word collate "C") in ('true', 'false') and field = 'attribute' then
    return to_jsonb(lower(word collate "C")::boolean);
  else
    perform pushq.refuse_filter(
      positions[i],
      case when word in ('''', '"') then 'this quote is not closed'
           when word ~ '^[‘’“”„]' then format('%s is not a quote: use ''', word)
           when word ~ '^[0-9]' and field in ('registered', 'seen')
             then 'a time needs quotes, such as ''2026-11-22'''
           when word ~ '^[A-Za-z0-9_-]'
             then format('%s needs quotes: ''%s''', pushq.shown_word(word), pushq.shown(word, 40))
           else format('expected a value, such as a text in quotes, not %s', pushq.shown_word(word)) end);
  end if;

  plain := case field when 'locale' then pushq.reported_locale(value)
                      when 'time_zone' then pushq.plain_zone(value)
                      else value end;
  if field = 'app_version' and not pushq.is_version(value) then
    problem := format(
      case when value ~ '^[0-9]+([.][0-9]+)*$'
           then '%s is not a version: it has more than 8 numbers, or one of more than 18 digits'
           else '%s is not a version: use numbers with dots, such as 4.12.1' end, pushq.shown_word(value));
  elsif field = 'locale' and value = '' then
    problem := 'the locale is empty: to find devices without one, write locale is missing';
  elsif field = 'locale' and (plain !~ '^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$' or octet_length(plain) > 35) then
    problem := format('%s is not a language tag: use one such as de or de-AT', pushq.shown_word(value));
  elsif field = 'time_zone' then
    problem := pushq.time_zone_problem(plain);
    -- PostgreSQL ignores the case of a name; devices have it as in the IANA database.
    if plain <> '' and (problem is not null or plain ~ '(^|[/_-])[a-z]|[A-Z]{4}|-Au-|_(Es|Of)_|Etc/U[a-z]') then
      select z.name into right_name
      from pg_timezone_names z
      where lower(z.name) = lower(plain) and pushq.time_zone_problem(z.name) is null;
      if right_name <> plain then
        problem := coalesce(problem, format('%s is written otherwise', pushq.shown_word(value)))
          || format('; did you mean “%s”?', pushq.plain_zone(right_name));
      end if;
    end if;
    if plain = '' then
      problem := 'the time zone is empty: to find devices without one, write time_zone is missing';
    end if;
  elsif field = 'kind' then
    problem := pushq.kind_problem(value);
  elsif field in ('registered', 'seen') then
    return to_jsonb(pushq.filter_time(value, positions[i]));
  end if;
  if problem is not null then
    perform pushq.refuse_filter(positions[i], problem);
  end if;
  return to_jsonb(plain);
end $$;

-- The seconds since 1970 of a day, which begins in UTC, or of a time with its zone.
create or replace function pushq.filter_time(value text, place int) returns numeric
language plpgsql stable as $$
begin
  if value ~ E'^\\d{4}-\\d\\d-\\d\\d$' then
    return extract(epoch from (value || 'T00:00:00Z')::timestamptz);
  elsif value ~ (E'^\\d{4}-\\d\\d-\\d\\d[T ]([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d([.]\\d{1,6})?)?'
                 '(Z|[+-](0\\d|1[0-4]):[0-5]\\d)$') then
    return extract(epoch from value::timestamptz);
  end if;
  perform pushq.refuse_filter(
    place,
    format('%s is not a time: use one such as 2026-11-22 or 2026-11-22T09:00:00+01:00', pushq.shown_word(value)));
exception when invalid_datetime_format or datetime_field_overflow or invalid_parameter_value then
  perform pushq.refuse_filter(place, format('%s is not an existing day and time', pushq.shown_word(value)));
end $$;

-- The seconds of a duration such as `30 days`. A day has 24 hours.
create or replace function pushq.filter_seconds(words text[], positions int[], i int) returns int
language plpgsql stable as $$
declare
  units constant text[] := array['minutes', 'hours', 'days', 'weeks'];
  unit  text   := lower(words[i + 1] collate "C");
  which int;
begin
  if words[i] !~ '^[0-9]{1,5}$' or words[i]::int = 0 then
    perform pushq.refuse_filter(
      positions[i], format('expected a number from 1 to 99999 behind “within”, not %s', pushq.shown_word(words[i])));
  end if;
  which := array_position(units, case when unit ~ 's$' then unit else unit || 's' end);
  if which is null then
    perform pushq.refuse_filter(
      positions[i + 1], format('expected minutes, hours, days or weeks, not %s%s', pushq.shown_word(words[i + 1]),
                               pushq.suggestion(unit, units)));
  elsif words[i]::bigint * (array[60, 3600, 86400, 604800])[which] > 1000000000 then
    perform pushq.refuse_filter(positions[i], 'that is longer than 11574 days');
  end if;
  return words[i]::int * (array[60, 3600, 86400, 604800])[which];
end $$;
