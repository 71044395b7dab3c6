-- What a phone says of its language and its time zone, as it is stored. An app passes it on at each start: if it were
-- refused for its form, the token would be lost, and with it every push.

-- A locale in its plain form. Behind @ Apple's Locale.identifier writes what the user has changed
-- (th_TH@calendar=gregorian), which is no part of a language; and what is too long is so by its extensions.
create or replace function pushq.reported_locale(locale text) returns text
language plpgsql stable as $$
begin
  if locale ~ '.@' then
    locale := split_part(locale, '@', 1);
  end if;
  if octet_length(locale) > 35 then
    locale := regexp_replace(locale, '[-_][A-Za-z0-9][-_].*$', '');
  end if;
  return pushq.plain_locale(locale);
end $$;

-- A time zone by the name by which PostgreSQL knows it, wherever it has its zones from: Debian 13, for one, has those
-- of other countries' names in a package of their own. Empty, for none, if it has the form of a name but is not known:
-- a phone may have learned of a new zone before the server.
create or replace function pushq.reported_zone(time_zone text) returns text
language plpgsql stable as $$
declare
  -- The links of tzdata 2025b outside of the regions, but for abbreviations.
  links constant text := '{
    "Brazil/Acre": "America/Rio_Branco", "Brazil/DeNoronha": "America/Noronha", "Brazil/East": "America/Sao_Paulo",
    "Brazil/West": "America/Manaus", "Canada/Atlantic": "America/Halifax", "Canada/Central": "America/Winnipeg",
    "Canada/Eastern": "America/Toronto", "Canada/Mountain": "America/Edmonton",
    "Canada/Newfoundland": "America/St_Johns", "Canada/Pacific": "America/Vancouver",
    "Canada/Saskatchewan": "America/Regina", "Canada/Yukon": "America/Whitehorse",
    "Chile/Continental": "America/Santiago", "Chile/EasterIsland": "Pacific/Easter", "Cuba": "America/Havana",
    "Egypt": "Africa/Cairo", "Eire": "Europe/Dublin", "GB": "Europe/London", "GB-Eire": "Europe/London",
    "Hongkong": "Asia/Hong_Kong", "Iceland": "Africa/Abidjan", "Iran": "Asia/Tehran", "Israel": "Asia/Jerusalem",
    "Jamaica": "America/Jamaica", "Japan": "Asia/Tokyo", "Kwajalein": "Pacific/Kwajalein", "Libya": "Africa/Tripoli",
    "Mexico/BajaNorte": "America/Tijuana", "Mexico/BajaSur": "America/Mazatlan",
    "Mexico/General": "America/Mexico_City", "NZ": "Pacific/Auckland", "NZ-CHAT": "Pacific/Chatham",
    "Navajo": "America/Denver", "PRC": "Asia/Shanghai", "Poland": "Europe/Warsaw", "Portugal": "Europe/Lisbon",
    "ROC": "Asia/Taipei", "ROK": "Asia/Seoul", "Singapore": "Asia/Singapore", "Turkey": "Europe/Istanbul",
    "US/Alaska": "America/Anchorage", "US/Aleutian": "America/Adak", "US/Arizona": "America/Phoenix",
    "US/Central": "America/Chicago", "US/East-Indiana": "America/Indiana/Indianapolis",
    "US/Eastern": "America/New_York", "US/Hawaii": "Pacific/Honolulu", "US/Indiana-Starke": "America/Indiana/Knox",
    "US/Michigan": "America/Detroit", "US/Mountain": "America/Denver", "US/Pacific": "America/Los_Angeles",
    "US/Samoa": "Pacific/Pago_Pago", "W-SU": "Europe/Moscow", "Greenwich": "GMT", "Universal": "UTC"}';
  hours int;
  known text;
begin
  if time_zone is null or pushq.time_zone_problem(time_zone) is null then
    return time_zone;
  elsif time_zone ~ '^(Etc/)?GMT[+-]?0+$' then
    return 'GMT';
  elsif time_zone ~ '^GMT[+-][0-9]{4}$' then
    -- Apple's name of a zone without rules. In those of IANA the sign is the other one, and an hour is the least.
    hours := substr(time_zone, 4, 3)::int;
    if hours between -12 and 14 and right(time_zone, 2) = '00' then
      known := format('Etc/GMT%s%s', case when hours > 0 then '-' else '+' end, abs(hours));
    end if;
  else
    known := links::json ->> time_zone;
  end if;
  if known is not null and pushq.time_zone_problem(known) is null then
    return known;
  elsif octet_length(time_zone) <= 60 and time_zone ~ '^([A-Za-z_]+(/[A-Za-z_-]+){1,2}|GMT[+-][0-9]{4})$' then
    raise notice 'the time zone “%” is unknown here: the device is registered without one', time_zone;
    return '';
  end if;
  return time_zone;
end $$;
